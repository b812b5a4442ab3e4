package snapshot

import (
	"encoding/binary"

	"github.com/vramscope/vramscope/snapshot/pickle"
)

// field is what one field of an event looked like before: entries of a trace
// have the same keys in the same order, and numbers of few widths, so that the
// next one need only be compared with those. All events' fields make a tree; those
// of segments, blocks and the rest of a state make another.
type field struct {
	bits, mask uint64 // of the first bytes: the key, and the value's opcode
	payload    uint64 // mask of the value, when that is a number or a reference
	max        uint64 // that such a value may have
	value      int    // where it begins
	length     int    // with the value, when that is one
	keys       uint64 // known ones up to here, as bits
	next, alt  *field // that come behind it; that stand in its place
	steps      *stepTable
	row        value // of an end, what the keys make
	key        StringID
	step       step
}

const (
	maxAlternatives = 8    // fields in one place that are told from each other
	maxFields       = 4096 // in the tree
)

// sizeKeys are those of sizes, as bits: no size is larger than maxBytes.
const sizeKeys = 1<<sSize | 1<<sTotalSize | 1<<sRequestedSize | 1<<sAllocatedSize | 1<<sActiveSize

// learn is the field at p, which comes behind last; nil when it is none. It is
// known from then on, unless the tree has grown beyond what recorders write. A
// frame may begin anywhere, once in 64 KiB: at is where the field begins.
func (d *fast) learn(last *field, b []byte, p int) (f *field, at int) {
	if b[p] == pickle.Frame {
		d.framed = true
		p += 9
		word := binary.LittleEndian.Uint64(b[p:])
		for f := last.next; f != nil; f = f.alt {
			if word&f.mask == f.bits {
				return f, p
			}
		}
	}
	f = &field{}
	known := d.describe(f, last, b[p:p+fieldRoom/2])
	if f.length == 0 {
		return nil, p
	}
	if d.numFields == maxFields {
		return f, p
	}
	place := &last.next
	for n := 0; *place != nil && n < maxAlternatives; n++ {
		if known == 0 && (*place).key == f.key {
			f.next = (*place).next
			return f, p
		}
		if n < maxAlternatives-1 {
			place = &(*place).alt
		}
	}
	if known > 0 {
		f.mask = ^uint64(0) >> (64 - 8*known)
		f.bits = binary.LittleEndian.Uint64(b[p:]) & f.mask
		*place = f
		d.numFields++
	}
	return f, p
}

// describe makes f the field at b, of length 0 when it is none. It is told by
// that many bytes; 0: it must not be known again.
func (d *fast) describe(f *field, last *field, b []byte) (known int) {
	f.keys, f.steps = last.keys, last.steps
	if b[0] == pickle.SetItems {
		f.length, f.step, f.row = 1, stepEnd, shapeOf(f.keys)
		return 1
	}
	key, n := d.stringRef(b, 0)
	if n == 0 || key == 0 {
		return 0
	}
	if key < numKeys {
		if f.keys&(1<<key) != 0 {
			return 0
		}
		f.keys |= 1 << key
	}
	f.key, f.value = key, n
	known = n + 1
	if b[n] == pickle.Frame { // it may stand anywhere, once in 64 KiB
		d.framed = true
		f.value += 9
		known = 0
	}
	return f.describeValue(b[f.value:], known)
}

// describeValue goes on with the value, which is at v: so many bytes of the field were
// told up to there.
func (f *field) describeValue(v []byte, known int) int {
	key := f.key
	f.length = f.value
	at := min(key, numKeys)
	width, number, reference := 0, f.steps.number[at], f.steps.reference[at]
	switch op := v[0]; {
	case number != stepOther && op == pickle.BinInt1, reference != stepOther && op == pickle.BinGet:
		f.value, width = f.value+1, 1
	case number != stepOther && op == pickle.BinInt2:
		f.value, width = f.value+1, 2
	case number != stepOther && op == pickle.BinInt, reference != stepOther && op == pickle.LongBinGet:
		f.value, width = f.value+1, 4
	case number != stepOther && op == pickle.Long1 && v[1]-1 < 8:
		f.value, width = f.value+2, int(v[1])
		known += min(known, 1)
	case f.steps.boolean[at] != stepOther && (op == pickle.NewTrue || op == pickle.NewFalse):
		f.step, f.length, f.payload, f.max = f.steps.boolean[at], f.length+1, 0xff, 0xff
	case key == sBlocks && op == pickle.EmptyList && f.steps == &stateSteps:
		f.step = stepBlocks
	case key == sFrames && op == pickle.EmptyList && v[1] == pickle.Memoize:
		if v[2] == pickle.SetItems {
			f.length, f.step = f.length+2, stepNoFrames
		}
		known += 2 * min(known, 1)
	}
	if width > 0 {
		f.step = number | reference // a key has one of the two
		f.length = f.value + width
		f.payload = ^uint64(0) >> (64 - 8*width)
		f.max = f.payload
		if v[0] == pickle.BinInt || v[0] == pickle.Long1 {
			f.max >>= 1 // the sign
		}
		if uint64(1)<<key&sizeKeys != 0 {
			f.max = min(f.max, maxBytes)
		}
	}
	return known
}
