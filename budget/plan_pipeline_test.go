package budget

import (
	"fmt"
	"strings"
	"testing"
)

// TestTwins: a pipeline's micro-batches that are alike needn't be run one by one; no figure
// changes by it.
func TestTwins(t *testing.T) {
	dense, err := FromParams(8_000_000_000)
	if err != nil {
		t.Fatal(err)
	}
	experts, err := ReadConfig(strings.NewReader(`{"model_type": "mixtral", "hidden_size": 1024, "num_hidden_layers": 16, "num_attention_heads": 16,
		"num_key_value_heads": 4, "intermediate_size": 3584, "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2}`))
	if err != nil {
		t.Fatal(err)
	}
	learned, err := ReadConfig(strings.NewReader(`{"model_type": "gpt2", "n_embd": 1024, "n_layer": 24, "n_head": 16, "vocab_size": 50257, "n_positions": 2048}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name string
		c    *Config
		s    Setting
	}{
		{"sixteen bits", dense, Setting{Precision: "bf16"}},
		{"torchtitan", dense, Setting{Precision: "bf16-mixed", FSDP: "full", GPUs: 64, Framework: "torchtitan", Checkpointing: "op"}},
		{"tensor parallel, compiled", dense, Setting{Precision: "bf16-mixed", FSDP: "full", GPUs: 64, TP: 4, SequenceParallel: true, Compile: true,
			Float8: true, Checkpointing: "full"}},
		{"Megatron-LM", dense, Setting{Precision: "bf16", MasterWeights: true, Zero: 1, GPUs: 64, TP: 2, SequenceParallel: true, Framework: "megatron",
			Checkpointing: "selective", Optimizer: "adamw-fused"}},
		{"ZeRO 2", dense, Setting{Precision: "bf16", MasterWeights: true, Zero: 2, GPUs: 32, Framework: "deepspeed"}},
		{"autocast without shards", dense, Setting{Precision: "bf16-mixed", Checkpointing: "2"}},
		{"LoRA on packed weights", dense, Setting{Precision: "int4", LoRA: 16, Checkpointing: "full"}},
		{"keeps what it gathers", dense, Setting{Precision: "bf16-mixed", FSDP: "full", KeepGathered: true, GPUs: 32, Loss: "chunked"}},
		{"offloaded", dense, Setting{Precision: "bf16-mixed", FSDP: "full", Offload: "params", GPUs: 32}},
		{"optimizer in backward", dense, Setting{Precision: "bf16", OptimizerInBackward: true}},
		{"buffers made ahead", dense, Setting{Precision: "bf16", Torch: "2.4"}},
		{"experts", experts, Setting{Precision: "bf16", EP: 4, GPUs: 32, Attention: "eager"}},
		{"learned positions, dropout", learned, Setting{Precision: "fp16-mixed", Padding: true, KeepGradients: true}},
	} {
		for _, pp := range []int64{2, 4, 8} { // 4 with all forwards first
			for _, m := range []int64{3, 12} {
				s := x.s
				if pp == 4 {
					s.Schedule = "gpipe"
				}
				s.PP, s.MicroBatches, s.Batch, s.Sequence = pp, m, 2, 512
				some, err := Compute(x.c, s)
				if err != nil {
					t.Fatal(x.name, err)
				}
				s.EveryMicroBatch = true
				every, err := Compute(x.c, s)
				if err != nil {
					t.Fatal(x.name, err)
				}
				a := fmt.Sprint(some.Phases, some.Stages, some.Reserved, some.PeakBytes, some.FirstStep, some.Categories, some.Notes)
				b := fmt.Sprint(every.Phases, every.Stages, every.Reserved, every.PeakBytes, every.FirstStep, every.Categories, every.Notes)
				if a != b {
					t.Errorf("%s, %d stages, %d micro-batches:\n%s\nwith every one\n%s", x.name, pp, m, a, b)
				}
			}
		}
	}
}

// TestStagesOfDistances: what all layers look distances up in is on no rank of its own.
func TestStagesOfDistances(t *testing.T) {
	if _, err := Compute(smallConfig(t, "deberta-v2"), Setting{Sequence: 32, PP: 2}); err == nil || !strings.Contains(err.Error(), "table of distances") {
		t.Error(err)
	}
}
