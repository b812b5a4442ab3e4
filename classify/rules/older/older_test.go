package older

import (
	"testing"

	"github.com/vramscope/vramscope/timeline"
)

const mib = 1 << 20

// TestCopiesOf counts how often a model is there by how often each size is.
func TestCopiesOf(t *testing.T) {
	for _, test := range []struct {
		name   string
		counts map[int64]int // by bytes
		want   int
	}{
		{"weights, gradients and two moments", map[int64]int{100 * mib: 384, 25 * mib: 512, 96 * mib: 8, mib: 4 * 65, 39 * mib: 2}, 4},
		{"weights, gradients and a momentum", map[int64]int{100 * mib: 3 * 96, 25 * mib: 3 * 128, 96 * mib: 6, mib: 3 * 65}, 3},
		{"weights alone, of layers in numbers that four divides", map[int64]int{90 * mib: 96, 32 * mib: 128, 250 * mib: 2, 1 << 13: 65}, 0},
		{"as often, but all of them layers", map[int64]int{90 * mib: 96, 32 * mib: 128, 16 * mib: 64, mib: 32}, 0},
		{"a tenth is of another kind", map[int64]int{100 * mib: 4 * 9, 25 * mib: 4 * 11, 96 * mib: 4, mib: 4 * 13, 400 * mib: 1}, 0},
	} {
		bySize, total := map[int64][]timeline.AllocationID{}, int64(0)
		for n, count := range test.counts {
			bySize[n] = make([]timeline.AllocationID, count)
			total += n * int64(count)
		}
		if got := copiesOf(bySize, total); got != test.want {
			t.Errorf("%s: %d times, want %d", test.name, got, test.want)
		}
	}
}
