package snapshot

import (
	"fmt"
	"math"
)

// maxBytes is the largest size taken at its word: 64 TiB, far above any device
// and low enough that sums of millions stay within 63 bits of each other's way.
const maxBytes = 1 << 46

// maxNote bounds texts that are put together from several strings, in bytes.
const maxNote = 4096

// brief is a value in a few words.
func (d *decoder) brief(v value) string {
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
		if b := d.bigs[v.index()]; b.huge {
			return "an integer of more than 64 bits"
		} else if b.negative {
			return fmt.Sprint(int64(b.low))
		} else {
			return fmt.Sprint(b.low)
		}
	case kFloat:
		return fmt.Sprint(d.floats[v.index()])
	case kString:
		return d.textOf(v)
	case kPool:
		p := d.out.Pools[v.index()]
		return fmt.Sprintf("(%d, %d)", p[0], p[1])
	case kList, kTuple, kStack: // frames are no longer with their list
		return "a list"
	case kDict:
		return fmt.Sprintf("%d keys", len(d.dicts[v.index()].items)/2)
	}
	return "a nested value"
}

// bytes is a size; one that can't be right is noted and counts as nothing.
func (d *decoder) bytes(v value) int64 {
	if v.kind() == kInt {
		if n := v.int(); 0 <= n && n <= maxBytes {
			return n
		} else if n < 0 {
			d.note("size below zero, counted as 0")
			return 0
		}
		d.note("size beyond 64 TiB, counted as 0")
		return 0
	}
	switch v.kind() {
	case kBig:
		b := d.bigs[v.index()]
		switch {
		case b.huge:
			d.note("size of more than 64 bits, counted as 0")
		case b.negative:
			d.note("size below zero, counted as 0")
		default:
			d.note("size beyond 64 TiB, counted as 0")
		}
	default:
		d.note("size that is no integer, counted as 0")
	}
	return 0
}

// optional is a size that may be left unsaid, -1 where it is.
func (d *decoder) optional(v value) int64 {
	if v.kind() == kNone {
		return -1
	}
	return d.bytes(v)
}

// address uses all 64 bits.
func (d *decoder) address(v value) uint64 {
	switch v.kind() {
	case kInt:
		if n := v.int(); n >= 0 {
			return uint64(n)
		}
		d.note("address below zero")
		return uint64(v.int())
	case kBig:
		b := d.bigs[v.index()]
		if b.huge || b.negative {
			d.note("address of more than 64 bits or below zero")
		}
		return b.low
	case kNone:
	default:
		d.note("address that is no integer")
	}
	return 0
}

// int is any other integer; what isn't one is 0.
func (d *decoder) int(v value) int64 {
	switch v.kind() {
	case kInt:
		return v.int()
	case kBool:
		return int64(v.index())
	case kBig:
		if b := d.bigs[v.index()]; !b.huge && b.negative == (int64(b.low) < 0) {
			return int64(b.low)
		}
		d.note("integer of more than 64 bits, counted as 0")
	case kFloat:
		if f := d.floats[v.index()]; math.Abs(f) < 1<<62 {
			if f != math.Trunc(f) {
				d.note("number with a fraction, which is left out")
			}
			return int64(f)
		}
		d.note("number that is no integer, counted as 0")
	case kNone:
	default:
		d.note("number that is no integer, counted as 0")
	}
	return 0
}

func (d *decoder) str(v value) StringID {
	if v.kind() == kString {
		return StringID(v.index())
	}
	if v.kind() != kNone {
		d.note("text that is no string")
	}
	return 0
}

func (d *decoder) stream(v value) uint32 {
	raw := d.address(v)
	if raw == d.lastStream.raw {
		return d.lastStream.id
	}
	id, ok := d.streams[raw]
	if !ok {
		d.used += 64
		id = uint32(len(d.out.Streams))
		d.out.Streams = append(d.out.Streams, raw)
		d.streams[raw] = id
	}
	d.lastStream.raw, d.lastStream.id = raw, id
	return id
}

func (d *decoder) poolOf(v value) uint32 {
	switch v.kind() {
	case kPool:
		return uint32(v.index())
	case kList: // after a detour through JSON
		if l := &d.lists[v.index()]; l.length() == 2 && len(l.items) == 2 {
			return d.pool(Pool{d.int(l.items[0]), d.int(l.items[1])})
		}
	case kNone:
		return 0
	}
	d.note(oddPool)
	return 0
}

const oddPool = "pool that is no pair of integers"

// starts tells whether an annotation's stage is the beginning of its range.
func (d *decoder) starts(stage StringID) bool {
	if stage != sStart && stage != sEnd {
		d.note("annotation whose stage is neither START nor END, taken as its end")
	}
	return stage == sStart
}

// short is a text cut to a length that a file can't multiply without end by
// referring to it again and again.
func short(s string) string {
	if len(s) > maxNote {
		return s[:maxNote] + "…"
	}
	return s
}
