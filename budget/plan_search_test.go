package budget

import (
	"strings"
	"testing"
)

// Every plan fits, the best is first, and a model too large to train in full is given the
// lightest way that fits.
func TestPlans(t *testing.T) {
	h100 := GPU{Name: "H100", Capacity: 79 * gib, Context: 614 * mib}
	for _, tt := range []struct {
		name string
		c    map[string]any
		s    Setting
		g    GPU
		want string // in the best plan's flags
	}{
		{"7B on 24 GB", with(llama8B, "vocab_size", 32000.0), Setting{Optimizer: "adamw-fused"}, GPU{Name: "24", Capacity: 23 * gib, Context: 460 * mib}, "--lora 16"},
		{"8B on 8", llama8B, Setting{Optimizer: "adamw-fused", GPUs: 8, Sequence: 4096}, h100, "--fsdp full"},
		{"70B on 8", llama70B, Setting{Optimizer: "adamw-fused", GPUs: 8, Sequence: 4096}, h100, "--tp"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := configOf(t, tt.c)
			ps, err := Plans(c, tt.s, tt.g, []string{"bf16-mixed", "bf16"})
			if err != nil || len(ps) == 0 || len(ps) > plansShown {
				t.Fatalf("%d plans, %v", len(ps), err)
			}
			if !strings.Contains(ps[0].Flags, tt.want) {
				t.Errorf("the best is %s, want %s", ps[0].Flags, tt.want)
			}
			for i, p := range ps {
				b, err := Compute(c, p.Setting)
				if err != nil || !b.fits(tt.g) || b.TotalDevice() != p.TotalDevice {
					t.Errorf("%s: %d bytes of %d, %v", p.Flags, p.TotalDevice, tt.g.Capacity, err)
				}
				if i > 0 && p.Cost < ps[i-1].Cost {
					t.Errorf("%s is better than the one before", p.Flags)
				}
			}
		})
	}
}

// A plan is told in the words of the framework that is asked for.
func TestPlanWords(t *testing.T) {
	s := Setting{Batch: 2, Sequence: 4096, Precision: "bf16", Optimizer: "adamw-fused", Checkpointing: "full", FSDP: "full", GPUs: 16, TP: 2}
	for framework, want := range map[string]string{
		"transformers": `--per_device_train_batch_size 2 --max_length 4096 (tp_size=2) --dtype bfloat16 --optim adamw_torch_fused --gradient_checkpointing --fsdp "full_shard auto_wrap"`,
		"torchtitan":   "--training.local_batch_size 2 --training.seq_len 4096 --parallelism.data_parallel_shard_degree 8 --parallelism.tensor_parallel_degree 2 --training.dtype bfloat16 --optimizer.implementation fused --activation_checkpoint.mode full",
		"torchtune":    "--nproc_per_node 16 batch_size=2 tokenizer.max_seq_len=4096 tensor_parallel_dim=2 dtype=bf16 optimizer.fused=True enable_activation_checkpointing=True",
		"litgpt":       "--devices 16 --train.micro_batch_size 2 --train.max_seq_length 4096 --precision bf16-true",
		"megatron":     "--micro-batch-size 2 --seq-length 4096 --tensor-model-parallel-size 2 --sequence-parallel --bf16 --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 --use-torch-fsdp2",
		"deepspeed":    "",
	} {
		s.Framework = framework
		if got := s.framework(); got != want {
			t.Errorf("%s: %s", framework, got)
		}
	}
}
