package budget

import "testing"

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
		if got := s.FrameworkFlags(); got != want {
			t.Errorf("%s: %s", framework, got)
		}
	}
}

// TestHostBytes: what is offloaded lies in host memory, what is sharded a rank's part of it.
func TestHostBytes(t *testing.T) {
	c := configOf(t, llama31)
	const n = 8030261248
	for _, tt := range []struct {
		name string
		s    Setting
		want int64
	}{
		{"nothing", Setting{}, 0},
		{"state", Setting{Offload: "optimizer"}, 4 * n},
		{"no state", Setting{Offload: "optimizer", Optimizer: "sgd"}, 0},
		{"all of it", Setting{Offload: "params", Precision: "fp32"}, 16 * n},
		{"a rank's part", Setting{Offload: "params", Precision: "bf16-mixed", FSDP: "full", GPUs: 8}, 2 * n},
		{"inputs of blocks", Setting{Checkpointing: "offload", Sequence: 2048, Batch: 2}, 32 * 2 * 2048 * 4096 * 2},
	} {
		b, err := Compute(c, tt.s)
		if err != nil {
			t.Fatal(tt.name, err)
		}
		if off := b.Host - tt.want; off < 0 || float64(off) > 0.001*float64(tt.want) {
			t.Errorf("%s: %d bytes, want %d", tt.name, b.Host, tt.want)
		}
	}
}
