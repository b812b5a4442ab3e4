package passes

import "testing"

// State comes in groups of one size, whatever tails their blocks have.
func TestInGroups(t *testing.T) {
	for _, c := range []struct {
		sizes []int64
		want  bool
	}{
		{[]int64{8, 8, 3, 3, 5}, true}, {[]int64{8, 3, 8, 3}, false}, {[]int64{8, 8, 8, 8}, false}, {nil, false},
	} {
		if got := inGroups(c.sizes, 2); got != c.want {
			t.Errorf("%v: %v", c.sizes, got)
		}
	}
}
