package logits

import (
	"testing"

	"github.com/vramscope/vramscope/classify/rules"
)

// TestWords tells logits over a vocabulary from features of a width by what they have in
// common with the largest weight.
func TestWords(t *testing.T) {
	for _, c := range []struct {
		name  string
		table int64
		size  int64
		want  bool
	}{
		{"GPT-2", 50257 * 768 * 4, 4096 * 50257 * 2, true},
		{"GPT-2, padded", 50304 * 768 * 4, 8 * 1024 * 50304 * 4, true},
		{"Llama 2", 32000 * 4096 * 2, 4 * 2048 * 32000 * 4, true},
		{"Qwen 2.5", 151936 * 896 * 2, 4096 * 151936 * 2, true},
		{"hidden features of Llama 2", 32000 * 4096 * 2, 4 * 2048 * 11008 * 2, false},
		{"a sparse autoencoder", 16384 * 1024 * 4, 4096 * 16384 * 4, false},
		{"all triples of 384", 3072 * 768 * 4, 384 * 384 * 384 * 4, false},
		{"no weights", 0, 4096 * 50257 * 2, false},
	} {
		a := &rules.Facts{SizeIndex: rules.SizeIndex{WeightSize: map[int64]int{1 << 20: 12}}}
		if c.table > 0 {
			a.WeightSize[c.table] = 1
		}
		if got := hasWords(a, c.size); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
