package allocator

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A tree holds what a sorted slice holds, whatever is done to it.
func TestTreeIsASortedSet(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		var tr tree
		var want []key
		compare := func(a, b key) int {
			if a.less(b) {
				return -1
			}
			if b.less(a) {
				return 1
			}
			return 0
		}
		some := func() key {
			return key{size: r.Int64N(50) * minBlock, address: r.Uint64N(2000), age: r.Uint32N(3)}
		}
		grow := 60
		for range 20000 {
			if r.IntN(2000) == 0 {
				grow = 100 - grow // shrink for a while, down to nothing
			}
			k := some()
			i, found := slices.BinarySearchFunc(want, k, compare)
			switch {
			case r.IntN(100) < grow && !found:
				tr.insert(k)
				want = slices.Insert(want, i, k)
			case len(want) > 0 && !found && r.IntN(3) == 0:
				old := r.IntN(len(want))
				tr.move(want[old], k)
				want = slices.Delete(want, old, old+1)
				i, _ = slices.BinarySearchFunc(want, k, compare)
				want = slices.Insert(want, i, k)
			case len(want) > 0:
				if !found {
					k = want[r.IntN(len(want))]
					i, _ = slices.BinarySearchFunc(want, k, compare)
				}
				if !tr.remove(k) {
					t.Fatalf("seed %d: %+v is not there", seed, k)
				}
				want = slices.Delete(want, i, i+1)
			}
			q := some()
			i, found = slices.BinarySearchFunc(want, q, compare)
			if got, ok := tr.from(q); ok != (i < len(want)) || ok && got != want[i] {
				t.Fatalf("seed %d: from %+v: %+v %v", seed, q, got, ok)
			}
			if got, ok := tr.before(q); ok != (i > 0) || ok && got != want[i-1] {
				t.Fatalf("seed %d: before %+v: %+v %v", seed, q, got, ok)
			}
			if !found && tr.remove(q) {
				t.Fatalf("seed %d: removed %+v, which was not there", seed, q)
			}
		}
		var got []key
		tr.each(func(k key) { got = append(got, k) })
		if !slices.Equal(got, want) || tr.count != len(want) {
			t.Fatalf("seed %d: %d keys, want %d", seed, len(got), len(want))
		}
	}
}

// An operation looks at a number of nodes that grows with the logarithm of the
// free blocks.
func TestTreeIsShallow(t *testing.T) {
	var tr tree
	for i := range uint64(200_000) {
		tr.insert(key{size: minBlock, address: i * 0x9E3779B97F4A7C15})
	}
	depth := 1
	for x := tr.root; x.kids != nil; x = x.kids[0] {
		depth++
	}
	if depth > 5 { // 16^5 is more than a million
		t.Errorf("%d levels for 200,000 keys", depth)
	}
}
