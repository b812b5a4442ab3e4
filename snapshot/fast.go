package snapshot

import (
	"encoding/binary"

	"github.com/vramscope/vramscope/snapshot/pickle"
)

// fast has the tight loops for what a snapshot nearly wholly consists of: trace
// entries, segments, blocks, frames and annotations with the usual keys, and lists of
// references to frames. Each either reads the whole thing or leaves everything as it
// was for the general opcodes.
type fast struct {
	objects

	raw       *rawStacks
	fields    field       // of events: what comes first is behind it
	states    field       // of all other rows
	forms     forms       // of whole events
	seen      []seenField // of the last event
	framed    bool        // there was a FRAME amid them
	inState   bool        // the last row was one of these
	numFields int
	strange   [4]struct { // keys of the event at hand that aren't known
		key   StringID
		value value
	}
	unframed []byte
}

// fastOpcodes reads what op begins; false for what is left to the general way.
func (d *fast) fastOpcodes(op byte) bool {
	return op == pickle.EmptyDict && d.fastRows() || op == pickle.EmptyList && d.fastFrames() || d.fastScalars()
}

// memoOp is the length of the opcode at p when it stores into the next free
// memo position, else 0.
func (o *objects) memoOp(p int) int {
	switch b := o.b; b[p] {
	case pickle.Memoize:
		return 1
	case pickle.BinPut:
		if int(b[p+1]) == len(o.memo) {
			return 2
		}
	case pickle.LongBinPut:
		if int(binary.LittleEndian.Uint32(b[p+1:])) == len(o.memo) {
			return 5
		}
	}
	return 0
}

// fastFrames reads a whole list of frame references at d.p and pushes its stack.
func (d *fast) fastFrames() bool {
	end, id := d.frameList(d.p)
	if end == 0 {
		return false
	}
	d.p = end
	d.push(newValue(kStack, uint64(id)))
	return true
}

// frameList reads `] memo ( (h n | j nnnn)* e` at p, or the same with a single
// reference and APPEND; end is 0 when it is anything else. Torch's own pickler
// puts a list into the memo behind its contents, if at all.
func (d *fast) frameList(p int) (end int, id StackID) {
	b := d.b
	if len(b)-p < 32 || len(d.memo) == cap(d.memo) && d.growMemo(len(d.memo)+1) != nil {
		return 0, 0
	}
	n := d.memoOp(p + 1)
	late := n == 0
	p += 1 + n
	if b[p] != pickle.Mark {
		if late {
			return 0, 0
		}
		return d.singleFrame(p)
	}
	p++
	if c := b[p]; c != pickle.BinGet && c != pickle.LongBinGet {
		return 0, 0
	}
	id, n = d.raw.guess(b[p:])
	q := p + n
	if n == 0 {
		var raw []byte
		if raw, q = d.references(p); q == 0 {
			return 0, 0
		}
		if id = d.stackAt(raw, false); id == 0 {
			return 0, 0
		}
	}
	if b[q+1] == pickle.Mark { // more of the same list follows
		return 0, 0
	}
	end = q + 1
	if late {
		if n = d.memoOp(end); n == 0 {
			return end, id
		}
		end += n
	}
	d.memo = append(d.memo, newValue(kStack, uint64(id)).ref())
	return end, id
}

// references is the run of memo references at p up to APPENDS, whose position
// is end; 0 when something else is among them. A FRAME opcode, which may stand
// anywhere, is left out.
func (d *fast) references(p int) (raw []byte, end int) {
	b, q := d.b, p
	framed := false
	for len(b)-q > 16 {
		switch b[q] {
		case pickle.LongBinGet:
			q += 5
			continue
		case pickle.BinGet:
			q += 2
			continue
		case pickle.Frame:
			if !framed {
				d.unframed, framed = d.unframed[:0], true
			}
			d.unframed = append(d.unframed, b[p:q]...)
			q += 9
			p = q
			continue
		case pickle.Appends:
			if framed {
				d.unframed = append(d.unframed, b[p:q]...)
				return d.unframed, q
			}
			return b[p:q], q
		}
		break
	}
	return nil, 0
}

// singleFrame reads a list of one frame, `h n a` or `j nnnn a`, at p.
func (d *fast) singleFrame(p int) (end int, id StackID) {
	n := 0
	switch d.b[p] {
	case pickle.BinGet:
		n = 2
	case pickle.LongBinGet:
		n = 5
	}
	if n == 0 || d.b[p+n] != pickle.Append || d.b[p+n+1] == pickle.Mark {
		return 0, 0
	}
	// The list itself takes the next memo position: a reference to it is no frame.
	if id = d.stackAt(d.b[p:p+n], true); id == 0 {
		return 0, 0
	}
	d.memo = append(d.memo, newValue(kStack, uint64(id)).ref())
	return p + n + 1, id
}

// stackAt is the stack that the references in raw make, 0 when one of them is
// no frame. Lists of one frame end in another opcode than longer ones, which
// guess relies on, so they are not remembered.
func (d *fast) stackAt(raw []byte, single bool) StackID {
	var h uint64
	if !single {
		var id StackID
		if id, h = d.raw.find(raw); id != 0 {
			return id
		}
	}
	frames := d.scratch[:0]
	for q := 0; q < len(raw); {
		var slot int
		if raw[q] == pickle.BinGet {
			slot = int(raw[q+1])
			q += 2
		} else {
			slot = int(binary.LittleEndian.Uint32(raw[q+1:]))
			q += 5
		}
		if slot >= len(d.memo) || value(d.memo[slot]).kind() != kFrame {
			return 0
		}
		frames = append(frames, FrameID(value(d.memo[slot]).index()))
	}
	d.scratch = frames[:0]
	id, err := d.internStack(frames)
	if err != nil || single {
		return id // the next allocation reports a limit that is passed
	}
	if d.take(int64(len(raw))+48) == nil {
		d.raw.add(raw, h, id)
	}
	return id
}

// smallInt reads a non-negative integer of up to 63 bits at p; n is the length
// of its opcode, 0 when it is anything else.
func smallInt(b []byte, p int) (x uint64, n int) {
	switch b[p] {
	case pickle.BinInt1:
		return uint64(b[p+1]), 2
	case pickle.BinInt2:
		return uint64(binary.LittleEndian.Uint16(b[p+1:])), 3
	case pickle.BinInt:
		x = uint64(binary.LittleEndian.Uint32(b[p+1:]))
		if x>>31 == 0 {
			return x, 5
		}
	case pickle.Long1:
		width := uint(b[p+1])
		if width-1 < 8 {
			x = binary.LittleEndian.Uint64(b[p+2:]) & (^uint64(0) >> ((64 - 8*width) & 63))
			if x>>((8*width-1)&63) == 0 {
				return x, 2 + int(width)
			}
		}
	}
	return 0, 0
}

// reference reads a reference to the memo at p; n is 0 when it is anything else.
func (o *objects) reference(b []byte, p int) (v value, n int) {
	var slot int
	switch b[p] {
	case pickle.BinGet:
		slot, n = int(b[p+1]), 2
	case pickle.LongBinGet:
		slot, n = int(binary.LittleEndian.Uint32(b[p+1:])), 5
	default:
		return 0, 0
	}
	if slot >= len(o.memo) {
		return 0, 0
	}
	return value(o.memo[slot]), n
}

// stringRef reads a reference to a string at p; n is 0 when it is anything else.
func (o *objects) stringRef(b []byte, p int) (id StringID, n int) {
	if v, n := o.reference(b, p); v.kind() == kString {
		return StringID(v.index()), n
	}
	return 0, 0
}
