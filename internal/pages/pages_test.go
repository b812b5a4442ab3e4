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
