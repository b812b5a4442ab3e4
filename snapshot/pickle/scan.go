package pickle

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/vramscope/vramscope/snapshot/input"
)

// MaxMarks bounds the containers under construction within each other. Real files
// stay far below.
const MaxMarks = 1000

// Scan walks over a whole pickle without building anything and refuses what a
// general unpickler should never see: opcodes that are forbidden, lengths
// beyond the file, memo positions that aren't there, deep nesting, and hardly
// anything but empty containers. The cost is about the memory that the objects
// would take, in bytes.
func Scan(b []byte, forbidden map[byte]string) (cost int64, err error) {
	fail := func(at int, format string, args ...any) (int64, error) {
		return 0, &input.Error{Offset: int64(at), Cause: fmt.Sprintf(format, args...)}
	}
	memo, marks := 0, 0
	for p := 0; p < len(b); {
		at, op := p, b[p]
		p++
		if name, bad := forbidden[op]; bad {
			return fail(at, "%s refused: this kind of file has no code to import or call", name)
		}
		fixed, width, line := argument(op)
		switch {
		case line:
			i := lineEnd(b[p:], op)
			if i < 0 {
				return fail(at, "a line without an end")
			}
			if op == Put || op == Get {
				n, err := strconv.ParseUint(string(b[p:p+i]), 10, 32)
				if err != nil || op == Get && int(n) >= memo {
					return fail(at, "memo position %.20q", b[p:p+i])
				}
				if op == Put {
					memo = max(memo, int(n)+1)
				}
			}
			p += i + 1
			cost += scalarCost + int64(i)
			continue
		case len(b)-p < fixed+width:
			return fail(at, "the file ends in the middle of an opcode")
		}
		n := little(b[p : p+width])
		cost += scalarCost
		switch op {
		case Proto:
			if b[p] > 5 {
				return fail(at, "pickle protocol %d; 0 to 5 are known", b[p])
			}
		case BinPut, LongBinPut:
			memo = max(memo, int(little(b[p:p+fixed]))+1)
		case Memoize:
			memo++
		case BinGet, LongBinGet:
			if int(little(b[p:p+fixed])) >= memo {
				return fail(at, "GET %d outside memo of %d entries", little(b[p:p+fixed]), memo)
			}
		case Mark:
			if marks++; marks > MaxMarks {
				return fail(at, "nesting deeper than %d", MaxMarks)
			}
		case Appends, SetItems, Tuple, List, Dict, FrozenSet, AddItems, PopMark:
			marks--
			cost += containerCost
		case Frame:
			if little(b[p:p+8]) > uint64(len(b)-p-8) {
				return fail(at, "FRAME beyond the end of the file")
			}
		case Stop:
			if cost > maxCost*int64(len(b))+64<<20 {
				return fail(-1, "little but empty lists and the like: no memory snapshot")
			}
			return cost, nil
		case EmptyDict, EmptyList, Tuple1, Tuple2, Tuple3, EmptySet:
			cost += containerCost
		case Long1, Long4:
			if n == 0 {
				return fail(at, "an integer of no bytes")
			}
		}
		if p += fixed + width; n > uint64(len(b)-p) {
			return fail(at, "a length of %d beyond the end of the file", n)
		}
		p += int(n)
		cost += int64(n)
	}
	return fail(len(b), "the file ends without STOP")
}

// lineEnd is where the line of an opcode ends, the second of a class's, which has its module's name first; -1: nowhere.
func lineEnd(b []byte, op byte) int {
	i := bytes.IndexByte(b, '\n')
	if op != Global || i < 0 {
		return i
	}
	if j := bytes.IndexByte(b[i+1:], '\n'); j >= 0 {
		return i + 1 + j
	}
	return -1
}

// What gopickle's objects and the rows made of them take, in bytes: measured,
// and rounded up.
const (
	scalarCost    = 48  // on the stack, boxed, in a list or the memo
	containerCost = 320 // with room for four elements
	// maxCost is the most that they may take per byte of the file: what recorders write
	// comes to 65 at most, empty lists to hundreds.
	maxCost = 128
)

// argument is what follows an opcode: a fixed number of bytes, a length of some
// width and that many bytes, or a line of text.
func argument(op byte) (fixed, width int, line bool) {
	switch op {
	case BinInt1, BinGet, BinPut, Proto:
		return 1, 0, false
	case BinInt2:
		return 2, 0, false
	case BinInt, LongBinGet, LongBinPut:
		return 4, 0, false
	case BinFloat, Frame:
		return 8, 0, false
	case ShortBinUnicode, ShortBinString, ShortBinBytes, Long1:
		return 0, 1, false
	case BinUnicode, BinString, BinBytes, Long4:
		return 0, 4, false
	case BinUnicode8, BinBytes8, ByteArray8:
		return 0, 8, false
	case Float, Int, Long, String, Unicode, Get, Put, Global, PersID:
		return 0, 0, true
	}
	return 0, 0, false
}

func little(b []byte) uint64 {
	var buf [8]byte
	copy(buf[:], b)
	return binary.LittleEndian.Uint64(buf[:])
}
