package snapshot

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
)

// scan walks over a whole pickle without building anything and refuses what a
// general unpickler should never see: opcodes that import or call, lengths
// beyond the file, memo positions that aren't there, deep nesting. The cost is
// about the memory that the objects would take, in bytes.
func scan(b []byte) (cost int64, err error) {
	fail := func(at int, format string, args ...any) (int64, error) {
		return 0, &Error{Offset: int64(at), Cause: fmt.Sprintf(format, args...)}
	}
	memo, marks := 0, 0
	for p := 0; p < len(b); {
		at, op := p, b[p]
		p++
		if name, bad := forbidden[op]; bad {
			return fail(at, "%s refused: a memory snapshot has no code to import or call", name)
		}
		fixed, width, line := argument(op)
		switch {
		case line:
			i := bytes.IndexByte(b[p:], '\n')
			if i < 0 {
				return fail(at, "a line without an end")
			}
			if op == opPut || op == opGet {
				n, err := strconv.ParseUint(string(b[p:p+i]), 10, 32)
				if err != nil || op == opGet && int(n) >= memo {
					return fail(at, "memo position %.20q", b[p:p+i])
				}
				if op == opPut {
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
		case opProto:
			if b[p] > 5 {
				return fail(at, "pickle protocol %d; 0 to 5 are known", b[p])
			}
		case opBinPut, opLongBinPut:
			memo = max(memo, int(little(b[p:p+fixed]))+1)
		case opMemoize:
			memo++
		case opBinGet, opLongBinGet:
			if int(little(b[p:p+fixed])) >= memo {
				return fail(at, "GET %d outside memo of %d entries", little(b[p:p+fixed]), memo)
			}
		case opMark:
			if marks++; marks > maxMarks {
				return fail(at, "nesting deeper than %d", maxMarks)
			}
		case opAppends, opSetItems, opTuple, opList, opDict, opFrozenSet, opAddItems, opPopMark:
			marks--
			cost += containerCost
		case opFrame:
			if little(b[p:p+8]) > uint64(len(b)-p-8) {
				return fail(at, "FRAME beyond the end of the file")
			}
		case opStop:
			return cost, nil
		case opEmptyDict, opEmptyList, opTuple1, opTuple2, opTuple3, opEmptySet:
			cost += containerCost
		case opLong1, opLong4:
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

// What gopickle's objects and the rows made of them take, in bytes: measured,
// and rounded up.
const (
	scalarCost    = 48  // on the stack, boxed, in a list or the memo
	containerCost = 320 // with room for four elements
)

// argument is what follows an opcode: a fixed number of bytes, a length of some
// width and that many bytes, or a line of text.
func argument(op byte) (fixed, width int, line bool) {
	switch op {
	case opBinInt1, opBinGet, opBinPut, opProto:
		return 1, 0, false
	case opBinInt2:
		return 2, 0, false
	case opBinInt, opLongBinGet, opLongBinPut:
		return 4, 0, false
	case opBinFloat, opFrame:
		return 8, 0, false
	case opShortBinUnicode, opShortBinString, opShortBinBytes, opLong1:
		return 0, 1, false
	case opBinUnicode, opBinString, opBinBytes, opLong4:
		return 0, 4, false
	case opBinUnicode8, opBinBytes8, opByteArray8:
		return 0, 8, false
	case opFloat, opInt, opLong, opString, opUnicode, opGet, opPut:
		return 0, 0, true
	}
	return 0, 0, false
}

func little(b []byte) uint64 {
	var buf [8]byte
	copy(buf[:], b)
	return binary.LittleEndian.Uint64(buf[:])
}
