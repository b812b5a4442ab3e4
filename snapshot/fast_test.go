package snapshot

import (
	"slices"
	"testing"
)

// TestNoFrames: events whose stack wasn't recorded have an empty list, in
// Python-only recordings half of them.
func TestNoFrames(t *testing.T) {
	for _, c := range []struct {
		name   string
		list   []byte
		n      int
		memoed bool
	}{
		{"last", []byte{opEmptyList, opMemoize, opSetItems}, 2, true},
		{"a key behind it", []byte{opEmptyList, opMemoize, opBinGet, 7, opBinInt1}, 2, true},
		{"a key behind it, far in the memo", []byte{opEmptyList, opMemoize, opLongBinGet, 7, 1, 0, 0}, 2, true},
		{"not in the memo", []byte{opEmptyList, opSetItems}, 1, false},
		{"filled by a dictionary", []byte{opEmptyList, opMemoize, opEmptyDict}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDecoder()
			d.memo = make([]ref, 0, 8)
			d.b = append(slices.Clone(c.list), make([]byte, room)...)
			id := StackID(9)
			n := d.fastStack(d.b, 0, &id)
			if n != c.n || n > 0 && id != 0 || (len(d.memo) == 1) != c.memoed {
				t.Errorf("%d bytes, stack %d, memo %d", n, id, len(d.memo))
			}
		})
	}
}
