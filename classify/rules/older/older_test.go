package older

import (
	"testing"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
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

// TestSetsOfWeights: of many more blocks than weights, state and averages make, nothing is said.
func TestSetsOfWeights(t *testing.T) {
	for _, test := range []struct {
		name string
		size lastingSize
		want rules.Claim
	}{
		{"a teacher", lastingSize{bytes: mib, blocks: 12, gradients: 3, whole: 3}, rules.As(meaning.Weights, rules.Plausible)},
		{"as many as sets may be", lastingSize{bytes: mib, blocks: 48, gradients: 3, whole: 3}, rules.As(meaning.Weights, rules.Plausible)},
		{"more", lastingSize{bytes: mib, blocks: 49, gradients: 3, whole: 3}, rules.Claim{}},
		{"small ones", lastingSize{bytes: 4 << 10, blocks: 49, gradients: 3}, rules.As(meaning.OptimizerState, rules.Likely)},
	} {
		if got := test.size.claim(5); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}
