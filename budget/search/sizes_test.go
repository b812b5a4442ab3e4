package search

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/gpus"
)

// TestFewestGPUs: that a model is to be sharded says nothing about how many GPUs it
// needs at least.
func TestFewestGPUs(t *testing.T) {
	c, err := budget.ReadConfig(strings.NewReader(`{"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []budget.Setting{{FSDP: "full"}, {Zero: 3}, {}} {
		for bytes, most := range map[int64]int64{24 << 30: 8, 400 << 30: 1} {
			n, _, err := Solve(c, s, "gpus", gpus.GPU{Name: "test", Capacity: bytes})
			if err != nil || n < 1 || n > most || most > 1 && n == 1 {
				t.Errorf("%+v on %d GiB: %d GPUs, %v", s, bytes>>30, n, err)
			}
		}
		if n, _, err := Solve(c, s, "gpus", gpus.GPU{Name: "test", Capacity: 1 << 20}); err != nil || n != 0 {
			t.Errorf("%+v on 1 MiB: %d GPUs, %v", s, n, err)
		}
	}
	if _, err := budget.Compute(c, budget.Setting{Torch: "new"}); err == nil {
		t.Error("a version that is none")
	}
}
