package compare

import (
	"math"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// TestClaims: what files say wrongly of a recording is named, and the recording's budget stays
// the one that it has without files.
func TestClaims(t *testing.T) {
	const gpt2, none = "recordings/gpt2_fp32_adamw__hf_loop/snapshot_late", "scenarios/qwen2_sgd__none"
	const gather = "recordings/true_shortage_oom__fsdp_gather/snapshot_python"
	const llama = `{"model_type":"llama","vocab_size":32000,"hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":8,` +
		`"num_attention_heads":32,"num_key_value_heads":8}`
	qwen2 := smallConfig("qwen2", "Qwen2ForCausalLM", 8, 2, 1024)
	for _, tt := range []struct {
		name, recording, config string
		flags                   []string
		says                    func(s *budget.Setting)
		differs                 map[string]string // fields, and what was recorded
	}{
		{"truth", gpt2, "", []string{"batch", "seq", "optimizer", "precision"}, func(s *budget.Setting) {
			s.Batch, s.Sequence, s.Optimizer, s.Precision = 8, 512, "adamw", "fp32"
		}, nil},
		{"longest sequence", gpt2, "", []string{"seq"}, func(s *budget.Setting) { s.Sequence = 1024 }, nil},
		{"packed", gpt2, "", []string{"batch", "seq"}, func(s *budget.Setting) { s.Batch, s.Sequence = 4, 1024 }, nil},
		{"batch", gpt2, "", []string{"batch"}, func(s *budget.Setting) { s.Batch = 2 }, map[string]string{"batch": "8"}},
		{"trainer", gpt2, "", []string{"framework", "trainer"}, func(s *budget.Setting) {
			s.Framework, s.Trainer, s.DropOutputs = "transformers", true, true
		}, map[string]string{"trained by": "a loop of its own"}},
		{"framework", gpt2, "", []string{"framework"}, func(s *budget.Setting) { s.Framework = "torchtitan" },
			map[string]string{"trained by": "a loop of its own"}},
		{"optimizer", gpt2, "", []string{"optimizer"}, func(s *budget.Setting) { s.Optimizer = "adamw-8bit" },
			map[string]string{"optimizer": "adamw"}},
		{"precision", gpt2, "", []string{"precision"}, func(s *budget.Setting) { s.Precision = "bf16-mixed" },
			map[string]string{"precision": "float32"}},
		{"checkpointing", gpt2, "", []string{"checkpointing"}, func(s *budget.Setting) { s.Checkpointing = "full" },
			map[string]string{"checkpointing": "none"}},
		{"adapters", gpt2, "", []string{"lora"}, func(s *budget.Setting) { s.LoRA = 16 }, map[string]string{"adapters": "none"}},
		{"sharding", gpt2, "", []string{"fsdp", "gpus"}, func(s *budget.Setting) { s.FSDP, s.GPUs = "full", 8 },
			map[string]string{"sharding": "none"}},
		{"ranks of ZeRO", gpt2, "", []string{"zero", "gpus"}, func(s *budget.Setting) { s.Zero, s.GPUs = 1, 8 },
			map[string]string{"sharding": "none"}},
		{"tensor parallelism", gpt2, "", []string{"tp"}, func(s *budget.Setting) { s.TP = 4 },
			map[string]string{"tensor parallelism": "none"}},
		{"offload", gpt2, "", []string{"offload"}, func(s *budget.Setting) { s.Offload = "optimizer" },
			map[string]string{"offload": "none"}},
		{"accumulation", gpt2, "", []string{"accumulate"}, func(s *budget.Setting) { s.Accumulate = 4 },
			map[string]string{"accumulation": "none"}},
		{"compiled", gpt2, "", []string{"compile"}, func(s *budget.Setting) { s.Compile = true },
			map[string]string{"torch.compile": "off"}},
		{"fused loss", gpt2, "", []string{"loss"}, func(s *budget.Setting) { s.Loss = "fused" },
			map[string]string{"loss": "whole logits"}},
		{"eager", gpt2, "", []string{"attention"}, func(s *budget.Setting) { s.Attention = "eager" },
			map[string]string{"attention": "fused"}},
		{"several", gpt2, "", []string{"checkpointing", "lora", "batch", "tp"}, func(s *budget.Setting) {
			s.Checkpointing, s.LoRA, s.Batch, s.TP = "full", 8, 1, 2
		}, map[string]string{"checkpointing": "none", "adapters": "none", "batch": "8", "tensor parallelism": "none"}},
		{"two shards of float32, and not whole weights of 16 bits", gather, llama, []string{"fsdp", "gpus", "precision"},
			func(s *budget.Setting) { s.FSDP, s.GPUs, s.Precision = "full", 8, "bf16-mixed" },
			map[string]string{"sharding": "FSDP over 2 GPUs"}},
		{"checkpointing that no stack shows", none, qwen2, []string{"checkpointing"}, func(s *budget.Setting) {
			s.Checkpointing = "full"
		}, map[string]string{"checkpointing": "none"}},
		{"compiled code that no stack shows", none, qwen2, []string{"compile", "framework"}, func(s *budget.Setting) {
			s.Compile, s.Framework = true, "transformers"
		}, map[string]string{"torch.compile": "off"}},
		{"two things that no stack shows", none, qwen2, []string{"checkpointing", "compile", "framework"}, func(s *budget.Setting) {
			s.Compile, s.Checkpointing, s.Framework = true, "full", "transformers"
		}, map[string]string{"torch.compile": "off", "checkpointing": "none"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := claimed(t, tt.recording, tt.config, tt.flags, tt.says)
			if off := float64(r.Measured.PeakBytes)/float64(r.Expected.PeakBytes) - 1; math.Abs(off) > 0.001 {
				t.Errorf("the peak is off by %+.2f %%", 100*off)
			}
			for _, d := range r.Differs {
				if want, ok := tt.differs[d.Field]; !ok || want != d.Recorded || d.Why == "" {
					t.Errorf("%+v, want %q", d, want)
				}
				delete(tt.differs, d.Field)
			}
			for field := range tt.differs {
				t.Errorf("%s isn't named", field)
			}
		})
	}
}

// claimed compares a recording with its model and what files say of it.
func claimed(t *testing.T, recording, config string, flags []string, says func(s *budget.Setting)) *Result {
	t.Helper()
	if config == "" {
		config = configOf(t, "gpt2_fp32_adamw__hf_loop")
	}
	c, err := budget.ReadConfig(strings.NewReader(config))
	if err != nil {
		t.Fatal(err)
	}
	s, err := snapshot.Open("../testdata/"+recording+".pickle.gz", snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	theory := Untold(c)
	alone := *theory
	theory.Alone, theory.By, theory.Claimed = &alone, "train.yaml", map[string]bool{}
	for _, flag := range flags {
		theory.Claimed[flag] = true
	}
	says(&theory.Setting)
	line := timeline.New(s, &s.Devices[0])
	r, err := Run(line, classify.New(line, classify.Options{}), frames.New(s), *theory)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
