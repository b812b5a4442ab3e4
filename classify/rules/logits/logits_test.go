package logits

import (
	"testing"

	"github.com/vramscope/vramscope/classify/rules"
)

// TestOfWords: what shares its words with a weight may be logits, and a picture is none, whatever powers of two it has.
func TestOfWords(t *testing.T) {
	const picture = 4 * 64 * 512 * 512 * 2
	embedding, convolution := map[int64]int{30000 * 768 * 2: 1}, map[int64]int{512 * 512 * 9 * 2: 4}
	for _, c := range []struct {
		name    string
		weights map[int64]int
		size    int64
		want    bool
	}{
		{"tokens times words in 32 bits", embedding, 77 * 30000 * 4, true},
		{"words that are a power of two", map[int64]int{32768 * 4096 * 2: 1}, 77 * 32768 * 2, true},
		{"a picture beside an embedding", embedding, picture, false},
		{"a picture beside convolutions", convolution, picture, false},
		{"where no weight is large", map[int64]int{110592: 1}, picture, true},
	} {
		if got := ofWords(&look{SizeIndex: &rules.SizeIndex{WeightSize: c.weights}}, c.size); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
