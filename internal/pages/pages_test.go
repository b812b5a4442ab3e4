package pages

import "testing"

// TestTouch: what is there stays as it is, wherever in memory it begins.
func TestTouch(t *testing.T) {
	s := make([]uint32, 1<<20)
	for i := range s {
		s[i] = uint32(i)
	}
	for _, c := range []struct{ from, to int }{{0, len(s)}, {1, len(s) - 1}, {5000, 5001}, {7, 7}, {len(s), len(s)}} {
		Touch(s[c.from:c.to])
	}
	Touch[int64](nil)
	Touch(make([]struct{}, 3))
	for i := range s {
		if s[i] != uint32(i) {
			t.Fatalf("s[%d] = %d", i, s[i])
		}
	}
}

// TestGrown: what is there stays, and there is room for what is wanted.
func TestGrown(t *testing.T) {
	var s []int32
	for i := range 300_000 {
		before := cap(s)
		s = append(Grown(s, 1), int32(i))
		if before != cap(s) && cap(s) < 2*before {
			t.Fatalf("from %d to %d places", before, cap(s))
		}
	}
	for i, x := range s {
		if x != int32(i) {
			t.Fatalf("s[%d] = %d", i, x)
		}
	}
	if s = Grown(s, 1_000_000); cap(s)-len(s) < 1_000_000 || len(s) != 300_000 {
		t.Errorf("%d of %d places", len(s), cap(s))
	}
	if m := Make[uint64](1 << 18); len(m) != 1<<18 || m[0]|m[len(m)-1] != 0 {
		t.Errorf("%d numbers", len(m))
	}
}
