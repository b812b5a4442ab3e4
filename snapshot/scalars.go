package snapshot

import (
	"fmt"
	"math"

	"github.com/vramscope/vramscope/internal/cut"
)

// maxBytes is the largest size taken at its word: 64 TiB, far above any device
// and low enough that sums of millions stay within 63 bits of each other's way.
const maxBytes = 1 << 46

// maxNote bounds texts that are put together from several strings, in bytes.
const maxNote = 4096

// brief is a value in a few words.
func (o *objects) brief(v value) string {
	switch v.kind() {
	case kNone:
		return "None"
	case kBool:
		if v.index() == 1 {
			return "True"
		}
		return "False"
	case kInt:
		return fmt.Sprint(v.int())
	case kBig:
		if b := o.bigs[v.index()]; b.Huge {
			return "an integer of more than 64 bits"
		} else if b.Negative {
			return fmt.Sprint(int64(b.Low))
		} else {
			return fmt.Sprint(b.Low)
		}
	case kFloat:
		return fmt.Sprint(o.floats[v.index()])
	case kString:
		return o.textOf(v)
	case kPool:
		p := o.out.Pools[v.index()]
		return fmt.Sprintf("(%o, %o)", p[0], p[1])
	case kList, kTuple, kStack: // frames are no longer with their list
		return "a list"
	case kDict:
		return fmt.Sprintf("%d keys", len(o.dicts[v.index()].items)/2)
	}
	return "a nested value"
}

// bytes is a size; one that can't be right is noted and counts as nothing.
func (o *objects) bytes(v value) int64 {
	if v.kind() == kInt {
		if n := v.int(); 0 <= n && n <= maxBytes {
			return n
		} else if n < 0 {
			o.note("size below zero, counted as 0")
			return 0
		}
		o.note("size beyond 64 TiB, counted as 0")
		return 0
	}
	switch v.kind() {
	case kBig:
		b := o.bigs[v.index()]
		switch {
		case b.Huge:
			o.note("size of more than 64 bits, counted as 0")
		case b.Negative:
			o.note("size below zero, counted as 0")
		default:
			o.note("size beyond 64 TiB, counted as 0")
		}
	default:
		o.note("size that is no integer, counted as 0")
	}
	return 0
}

// optional is a size that may be left unsaid, -1 where it is.
func (o *objects) optional(v value) int64 {
	if v.kind() == kNone {
		return -1
	}
	return o.bytes(v)
}

// address uses all 64 bits.
func (o *objects) address(v value) uint64 {
	switch v.kind() {
	case kInt:
		if n := v.int(); n >= 0 {
			return uint64(n)
		}
		o.note("address below zero")
		return uint64(v.int())
	case kBig:
		b := o.bigs[v.index()]
		if b.Huge || b.Negative {
			o.note("address of more than 64 bits or below zero")
		}
		return b.Low
	case kNone:
	default:
		o.note("address that is no integer")
	}
	return 0
}

// int is any other integer; what isn't one is 0.
func (o *objects) int(v value) int64 {
	switch v.kind() {
	case kInt:
		return v.int()
	case kBool:
		return int64(v.index())
	case kBig:
		if b := o.bigs[v.index()]; !b.Huge && b.Negative == (int64(b.Low) < 0) {
			return int64(b.Low)
		}
		o.note("integer of more than 64 bits, counted as 0")
	case kFloat:
		if f := o.floats[v.index()]; math.Abs(f) < 1<<62 {
			if f != math.Trunc(f) {
				o.note("number with a fraction, which is left out")
			}
			return int64(f)
		}
		o.note("number that is no integer, counted as 0")
	case kNone:
	default:
		o.note("number that is no integer, counted as 0")
	}
	return 0
}

func (o *objects) str(v value) StringID {
	if v.kind() == kString {
		return StringID(v.index())
	}
	if v.kind() != kNone {
		o.note("text that is no string")
	}
	return 0
}

func (o *objects) stream(v value) uint32 {
	raw := o.address(v)
	if raw == o.lastStream.raw {
		return o.lastStream.id
	}
	id, ok := o.streams[raw]
	if !ok {
		o.used += 64
		id = uint32(len(o.out.Streams))
		o.out.Streams = append(o.out.Streams, raw)
		o.streams[raw] = id
	}
	o.lastStream.raw, o.lastStream.id = raw, id
	return id
}

func (o *objects) poolOf(v value) uint32 {
	switch v.kind() {
	case kPool:
		return uint32(v.index())
	case kList: // after a detour through JSON
		if l := &o.lists[v.index()]; l.length() == 2 && len(l.items) == 2 {
			return o.pool(Pool{o.int(l.items[0]), o.int(l.items[1])})
		}
	case kNone:
		return 0
	}
	o.note(oddPool)
	return 0
}

const oddPool = "pool that is no pair of integers"

// starts reports whether an annotation's stage is the beginning of its range.
func (t *tables) starts(stage StringID) bool {
	if stage != sStart && stage != sEnd {
		t.note("annotation whose stage is neither START nor END, taken as its end")
	}
	return stage == sStart
}

// short is a text cut to a length that a file can't multiply without end by
// referring to it again and again.
func short(s string) string { return cut.Bytes(s, maxNote) }
