package batch

import (
	"errors"
	"sync/atomic"
	"testing"
)

// TestAhead gives results in order, the error in its place, and makes no more
// than a few that nobody asks for.
func TestAhead(t *testing.T) {
	values := make([]int, 1000)
	for i := range values {
		values[i] = i
	}
	broken := errors.New("broken")
	var made atomic.Int64
	square := func(i int) (int, error) {
		made.Add(1)
		if i == 500 {
			return 0, broken
		}
		return i * i, nil
	}
	next := 0
	for v, err := range ahead(values, square) {
		if (err != nil) != (next == 500) || err == nil && v != next*next {
			t.Fatalf("%d: %d, %v", next, v, err)
		}
		next++
	}
	if next != 1000 {
		t.Errorf("%d results", next)
	}
	made.Store(0)
	for range ahead(values, square) {
		break
	}
	if n := made.Load(); n > 2*readAhead+2 {
		t.Errorf("%d were made for one", n)
	}
}
