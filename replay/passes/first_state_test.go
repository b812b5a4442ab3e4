package passes

import (
	"slices"
	"testing"

	"github.com/vramscope/vramscope/snapshot"
)

// TestPerGradient: how many tensors an optimizer keeps for each gradient is told by the lines that make them, or by sizes.
func TestPerGradient(t *testing.T) {
	layers := []int64{500, 8, 8, 3, 8, 12, 12, 12, 1, 1, 8, 8, 3, 8, 12, 12, 12, 1, 1, 500} // bytes of gradients, in order
	same := slices.Repeat([]int64{9}, 20)
	for _, c := range []struct {
		name      string
		gradients []int64
		lines     string // that make the state of each, in order; "": no stacks
		tensors   int    // of each, without stacks
		width     float64
		made      int // tensors, of all
		failed    int64
		want      int
	}{
		{"momentum", layers, "a", 1, 1, 15, 0, 1},
		{"adam", layers, "ab", 2, 1, 21, 0, 2},
		{"adam in 32 bits for 16", layers, "ab", 2, 2, 21, 0, 2},
		{"amsgrad", layers, "abc", 3, 1, 31, 0, 3},
		{"adam with a copy, on one line", layers, "abb", 3, 2, 32, 0, 3},
		{"amsgrad with a copy", layers, "abcd", 4, 2, 43, 0, 4},
		{"momentum without stacks", layers, "", 1, 1, 15, 0, 1},
		{"adam without stacks", layers, "", 2, 1, 21, 0, 2},
		{"a copy without stacks", layers, "", 3, 2, 31, 0, 3},
		{"amsgrad with a copy without stacks", layers, "", 4, 2, 43, 0, 4},
		{"moments in 8 bits", []int64{400, 80, 80, 40, 80, 120, 40}, "ab", 2, 0.25, 9, 0, 2},
		{"equal sizes", same, "ab", 2, 1, 26, 0, 2},
		{"equal sizes without stacks, more than gradients", same, "", 2, 1, 27, 0, 2},
		{"equal sizes without stacks, the next one failed", same, "", 2, 1, 20, scalarBlock, 2},
		{"nothing yet", layers, "ab", 2, 1, 0, 0, 1},
	} {
		of := map[int64]int{}
		var made []kept
		for _, bytes := range c.gradients {
			of[bytes]++
			for k := range c.tensors {
				x := kept{bytes: int64(float64(bytes) * c.width)}
				if c.lines != "" {
					x.stack = snapshot.StackID(c.lines[k])
				}
				made = append(made, x)
			}
		}
		got, reached := perGradient(made[:c.made], of, 1, c.failed)
		if got.Tensors != c.want || c.made > 0 && (got.Width != c.width || reached != c.made) {
			t.Errorf("%s: %+v of %d", c.name, got, reached)
		}
	}
}
