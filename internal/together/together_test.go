package together

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

func TestPanicsReachTheCaller(t *testing.T) {
	ran := make([]bool, 2)
	defer func() {
		r, _ := recover().(string)
		if !strings.HasPrefix(r, "broken\n") || !strings.Contains(r, "together_test.go") {
			t.Errorf("recovered %q: want the panic and where it was", r)
		}
		if !ran[0] || !ran[1] {
			t.Errorf("ran %v: want all parts", ran)
		}
	}()
	Do(func() { ran[0] = true }, func() { panic("broken") }, func() { ran[1] = true })
}

// TestEach: every number once, and no more at a time than there are processors.
func TestEach(t *testing.T) {
	for _, n := range []int{0, 1, 100} {
		ran := make([]atomic.Int32, n)
		var at, most atomic.Int32
		Each(n, func(i int) {
			if now := at.Add(1); now > most.Load() {
				most.Store(now)
			}
			ran[i].Add(1)
			at.Add(-1)
		})
		for i := range ran {
			if got := ran[i].Load(); got != 1 {
				t.Errorf("of %d, part %d ran %d times", n, i, got)
			}
		}
		if int(most.Load()) > runtime.GOMAXPROCS(0) {
			t.Errorf("%d parts at a time on %d processors", most.Load(), runtime.GOMAXPROCS(0))
		}
	}
}
