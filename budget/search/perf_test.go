package search

import (
	"testing"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/gpus"
)

func BenchmarkCompute(b *testing.B) {
	for _, m := range []struct {
		name string
		cfg  map[string]any
	}{
		{"8B", map[string]any{"model_type": "llama", "num_key_value_heads": 8.0, "intermediate_size": 14336.0, "vocab_size": 128256.0}},
		{"405B", map[string]any{"model_type": "llama", "hidden_size": 16384.0, "num_hidden_layers": 126.0, "num_attention_heads": 128.0, "num_key_value_heads": 8.0, "intermediate_size": 53248.0}},
	} {
		c, err := newConfig(m.cfg)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(m.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := budget.Compute(c, budget.Setting{Batch: 1, Sequence: 4096}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(m.name+"/fits", func(b *testing.B) {
			for b.Loop() {
				if _, err := Fits(c, budget.Setting{Batch: 1, Sequence: 4096}, gpus.All()); err != nil {
					b.Fatal(err)
				}
			}
		})
		stages := budget.Setting{Batch: 4, Sequence: 8192, PP: 8, TP: 8, GPUs: 512, FSDP: "full", MicroBatches: 8, SequenceParallel: true,
			Checkpointing: "full", Precision: "bf16-mixed"}
		if m.name == "405B" {
			b.Run(m.name+"/stages", func(b *testing.B) {
				for b.Loop() {
					if _, err := Fits(c, stages, gpus.All()[10:14]); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
