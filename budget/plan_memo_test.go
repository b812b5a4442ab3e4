package budget

import (
	"reflect"
	"testing"
)

// A configuration that has been asked before answers as a new one does.
func TestMemoChangesNothing(t *testing.T) {
	config := func() *Config {
		c, err := newConfig(map[string]any{"model_type": "llama", "num_hidden_layers": 3.0, "hidden_size": 256.0, "intermediate_size": 512.0, "num_attention_heads": 4.0})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	asked := config()
	for _, s := range []Setting{
		{}, {Optimizer: "adamw-fused"}, {Optimizer: "sgd", Allocator: "expandable"}, {Offload: "optimizer"}, {Offload: "params"}, {MasterWeights: true},
		{KeepGradients: true}, {KeepGradients: true, Accumulate: 2}, {LoRA: 8}, {}, {LoRA: 8, Optimizer: "adamw-8bit"}, {GPUs: 2, Zero: 3}, {GPUs: 2, TP: 2}, {GPUs: 3, PP: 3},
		{Precision: "bf16-mixed", GPUs: 4, FSDP: "full"}, {Batch: 2, Checkpointing: "full"}, {Inference: true}, {},
	} {
		want, err := Compute(config(), s)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Compute(asked, s)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: %+v, want %+v", s, got, want)
		}
	}
}
