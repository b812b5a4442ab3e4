package together

import (
	"strings"
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
