package snapshot

import (
	"encoding/binary"

	"github.com/vramscope/vramscope/snapshot/pickle"
)

// remembered is the value at a position of the memo; kOpaque when nothing is there.
func (o *objects) remembered(slot uint64) value {
	if slot < uint64(len(o.memo)) {
		return value(o.memo[slot])
	}
	return kOpaque
}

// anyValue reads the value of a key that isn't known at p.
func (d *fast) anyValue(b []byte, p int) (v value, n int) {
	switch b[p] {
	case pickle.None:
		return kNone, 1
	case pickle.NewTrue:
		return newValue(kBool, 1), 1
	case pickle.NewFalse:
		return newValue(kBool, 0), 1
	}
	if x, n := smallInt(b, p); n > 0 {
		return d.number(int64(x)), n
	}
	id, n := d.fastText(b, p)
	return newValue(kString, uint64(id)), n
}

// fastStack reads an event's stack at p: a list, or a reference to one.
func (d *fast) fastStack(b []byte, p int, id *StackID) (n int) {
	if b[p] == pickle.EmptyList {
		end, stack := d.frameList(p)
		if end == 0 {
			return d.noFrames(b, p, id)
		}
		*id = stack
		return end - p
	}
	v, n := d.reference(b, p)
	stack, ok := d.knownStack(v)
	if !ok {
		return 0
	}
	*id = stack
	return n
}

// knownStack is the stack that v is, when it is one.
func (o *objects) knownStack(v value) (id StackID, ok bool) {
	switch v.kind() {
	case kStack:
		return StackID(v.index()), true
	case kList: // its frames were spelled out where it came first
		l := &o.lists[v.index()]
		return l.stack, l.isStack
	}
	return 0, false
}

// noFrames reads an event's empty list at p: the next key or the end of the
// event is behind it. What would put something into the list is an opcode that
// stands nowhere in an event of the usual kind.
func (d *fast) noFrames(b []byte, p int, id *StackID) (n int) {
	n = d.memoOp(p + 1)
	memo := n > 0
	n++
	if b[p+n] == pickle.Mark && b[p+n+1] == pickle.Appends { // torch's own pickler adds none to it
		n += 2
	}
	switch b[p+n] {
	case pickle.SetItems, pickle.BinGet, pickle.LongBinGet:
	default:
		return 0
	}
	if memo {
		d.memo = append(d.memo, newValue(kStack, 0).ref())
	}
	*id = 0
	return n
}

// textStack reads `] memo ( text* e` at p, as the stack of a forward pass is
// written; n is 0 when it is anything else.
func (d *fast) textStack(b []byte, p int) (id StackID, n int) {
	if b[p] != pickle.EmptyList {
		return 0, 0
	}
	q := p + 1 + d.memoOp(p+1)
	if q == p+1 || b[q] != pickle.Mark {
		return 0, d.noFrames(b, p, &id)
	}
	own := len(d.memo)
	d.memo = append(d.memo, kOpaque.ref()) // until it is known which one it is
	frames := d.scratch[:0]
	for q++; b[q] != pickle.Appends; {
		if len(b)-q < room || len(d.memo) == cap(d.memo) {
			return 0, 0
		}
		text, size := d.fastText(b, q)
		if size == 0 {
			return 0, 0
		}
		frame, err := d.frame(Frame{Function: text})
		if err != nil {
			return 0, 0
		}
		frames = append(frames, frame)
		q += size
	}
	d.scratch = frames[:0]
	id, err := d.internStack(frames)
	if err != nil || b[q+1] == pickle.Mark { // more of the same list follows
		return 0, 0
	}
	d.memo[own] = newValue(kStack, uint64(id)).ref()
	return id, q + 1 - p
}

// fastPool reads `K a K b TUPLE2 MEMOIZE` at p, or a reference to such a pair.
func (d *fast) fastPool(b []byte, p int) (id uint32, n int) {
	if v, n := d.reference(b, p); n > 0 {
		if v.kind() == kPool {
			return uint32(v.index()), n
		}
		return 0, 0
	}
	if b[p] != pickle.BinInt1 || b[p+2] != pickle.BinInt1 || b[p+4] != pickle.Tuple2 {
		return 0, 0
	}
	if b[p+1]|b[p+3] != 0 {
		id = d.pool(Pool{int64(b[p+1]), int64(b[p+3])})
	}
	n = d.memoOp(p + 5)
	if n > 0 {
		d.memo = append(d.memo, newValue(kPool, uint64(id)).ref())
	}
	return id, 5 + n
}

// fastText reads a reference to a string, or a literal with its memo opcode, at p.
func (d *fast) fastText(b []byte, p int) (id StringID, n int) {
	start, size := p+2, int(b[p+1])
	switch b[p] {
	case pickle.ShortBinUnicode:
	case pickle.BinUnicode: // up to protocol 3
		start, size = p+5, int(binary.LittleEndian.Uint32(b[p+1:]))
	default:
		return d.stringRef(b, p)
	}
	if len(b)-start-room < size {
		return 0, 0
	}
	end := start + size
	id, err := d.intern(b[start:end])
	if err != nil {
		return 0, 0
	}
	n = d.memoOp(end)
	if n > 0 {
		d.memo = append(d.memo, newValue(kString, uint64(id)).ref())
	}
	return id, end - p + n
}
