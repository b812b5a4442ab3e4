package snapshot

import (
	"encoding/binary"

	"github.com/vramscope/vramscope/snapshot/pickle"
)

// fastScalars carries out opcodes that put one value on the stack, or the
// topmost one into the memo, as long as such follow each other; false when
// there is none. What is odd about one is left to step.
func (d *fast) fastScalars() bool {
	b, p := d.b, d.p
	stack := d.stack
run:
	for len(b)-p >= fieldRoom && len(stack) < cap(stack) {
		var v value
		n := 1
		switch b[p] {
		case pickle.BinGet, pickle.LongBinGet:
			if v, n = d.reference(b, p); v.kind() == kDict || v.kind() == kOpaque {
				break run
			}
		case pickle.BinInt1, pickle.BinInt2, pickle.BinInt, pickle.Long1:
			var x uint64
			x, n = smallInt(b, p)
			if v = newValue(kInt, x); v.int() != int64(x) {
				break run
			}
		case pickle.ShortBinUnicode, pickle.BinUnicode:
			v, n = d.shortText(b, p)
		case pickle.None:
			v = kNone
		case pickle.NewTrue:
			v = newValue(kBool, 1)
		case pickle.NewFalse:
			v = newValue(kBool, 0)
		case pickle.Mark:
			if len(d.marks) >= pickle.MaxMarks {
				break run
			}
			d.marks = append(d.marks, len(stack))
			p++
			continue
		case pickle.Memoize, pickle.BinPut, pickle.LongBinPut:
			n = d.memoOp(p)
			if n == 0 || len(stack) <= d.floor() || len(d.memo) == cap(d.memo) || stack[len(stack)-1].kind() == kDict {
				break run
			}
			d.memo = append(d.memo, stack[len(stack)-1].ref())
			p += n
			continue
		default:
			break run
		}
		if n == 0 {
			break
		}
		stack = append(stack, v)
		p += n
	}
	done := p > d.p
	d.stack, d.p = stack, p
	return done
}

// shortText reads a literal string at p that lies within the window; n is 0
// for any other.
func (d *fast) shortText(b []byte, p int) (v value, n int) {
	start := p + 2
	size := int(b[p+1])
	if b[p] == pickle.BinUnicode {
		start = p + 5
		size = int(binary.LittleEndian.Uint32(b[p+1:]))
	}
	if size > len(b)-start {
		return 0, 0
	}
	id, err := d.intern(b[start : start+size])
	if err != nil {
		return 0, 0
	}
	return newValue(kString, uint64(id)), start + size - p
}
