package budget

import (
	"fmt"
	"strings"
)

// dialect is how a framework is told a plan: for each thing, the words by a value of the
// setting.
type dialect struct {
	numbers []numberWords
	words   []choiceWords
}

// numberWords are for a number above the one that needs no words.
type numberWords struct {
	of    func(s Setting) int64
	above int64
	text  string
}

// choiceWords are for some values; others need none.
type choiceWords struct {
	of   func(s Setting) string
	text map[string]string
}

var (
	ofBatch     = func(s Setting) int64 { return s.Batch }
	ofSequence  = func(s Setting) int64 { return s.Sequence }
	ofGPUs      = func(s Setting) int64 { return s.GPUs }
	ofTP        = func(s Setting) int64 { return s.TP }
	ofCP        = func(s Setting) int64 { return s.CP }
	ofShards    = func(s Setting) int64 { return s.GPUs / (max(s.TP, 1) * max(s.CP, 1)) }
	ofRank      = func(s Setting) int64 { return s.LoRA }
	ofPrecision = func(s Setting) string { return s.Precision }
	ofOptimizer = func(s Setting) string {
		if s.Offload == "optimizer" {
			return "paged " + s.Optimizer
		}
		return s.Optimizer
	}
	ofLoss     = func(s Setting) string { return s.Loss }
	ofOffload  = func(s Setting) string { return s.Offload }
	ofRepeated = func(s Setting) string { return s.Checkpointing }
	ofSharding = func(s Setting) string {
		if s.FSDP != "" && s.Offload == "params" {
			return s.FSDP + " offload"
		}
		return s.FSDP
	}
	ofEarly = func(s Setting) string {
		if s.OptimizerInBackward {
			return "yes"
		}
		return "no"
	}
)

// dialects are those of the frameworks that take arguments on the command line.
var dialects = map[string]dialect{
	"transformers": {
		[]numberWords{{ofBatch, 0, "--per_device_train_batch_size %d"}, {ofSequence, 0, "--max_length %d"}, {ofTP, 1,
			"(tp_size=%d)"}, {ofCP, 1, "(cp_size=%d)"},
			{ofRank, 0, "--use_peft --lora_target_modules all-linear --lora_r %d"}},
		[]choiceWords{{ofPrecision, map[string]string{"bf16-mixed": "--bf16", "bf16": "--dtype bfloat16",
			"fp16-mixed": "--fp16",
			"int4":       "--load_in_4bit --use_bnb_nested_quant"}},
			{ofOptimizer, map[string]string{"adamw": "--optim adamw_torch", "adamw-fused": "--optim adamw_torch_fused",
				"adamw-8bit": "--optim adamw_bnb_8bit", "paged adamw-8bit": "--optim paged_adamw_8bit"}},
			{ofLoss, map[string]string{"fused": "--use_liger_kernel"}},
			{ofRepeated, map[string]string{"full": "--gradient_checkpointing"}},
			{ofSharding, map[string]string{"full": `--fsdp "full_shard auto_wrap"`,
				"full offload": `--fsdp "full_shard auto_wrap offload"`}}},
	},
	"torchtitan": {
		[]numberWords{{ofBatch, 0, "--training.local_batch_size %d"}, {ofSequence, 0, "--training.seq_len %d"},
			{ofShards, 1, "--parallelism.data_parallel_shard_degree %d"}, {ofTP, 1, "--parallelism.tensor_parallel_degree %d"},
			{ofCP, 1, "--parallelism.context_parallel_degree %d"}},
		[]choiceWords{{ofPrecision, map[string]string{"bf16": "--training.dtype bfloat16"}},
			{ofOffload, map[string]string{"params": "--training.enable_cpu_offload"}},
			{ofOptimizer, map[string]string{"adamw": "--optimizer.implementation foreach",
				"adamw-fused": "--optimizer.implementation fused"}},
			{ofRepeated, map[string]string{"full": "--activation_checkpoint.mode full",
				"none": "--activation_checkpoint.mode none",
				"op":   "--activation_checkpoint.mode selective --activation_checkpoint.selective_ac_option op"}}},
	},
	"torchtune": {
		[]numberWords{{ofGPUs, 1, "--nproc_per_node %d"}, {ofBatch, 0, "batch_size=%d"}, {ofSequence, 0,
			"tokenizer.max_seq_len=%d"},
			{ofTP, 1, "tensor_parallel_dim=%d"}, {ofRank, 0, "model.lora_rank=%d"}},
		[]choiceWords{{ofPrecision, map[string]string{"bf16": "dtype=bf16", "fp32": "dtype=fp32",
			"int4": "model.quantize_base=True"}},
			{ofOptimizer, map[string]string{"adamw": "optimizer.fused=False", "adamw-fused": "optimizer.fused=True",
				"adamw-8bit":       "optimizer._component_=bitsandbytes.optim.AdamW8bit",
				"paged adamw-8bit": "optimizer._component_=bitsandbytes.optim.PagedAdamW8bit"}},
			{ofOffload, map[string]string{"params": "fsdp_cpu_offload=True"}},
			{ofRepeated, map[string]string{"full": "enable_activation_checkpointing=True",
				"none": "enable_activation_checkpointing=False"}},
			{ofEarly, map[string]string{"yes": "optimizer_in_bwd=True"}}},
	},
	"litgpt": {
		[]numberWords{{ofGPUs, 1, "--devices %d"}, {ofBatch, 0, "--train.micro_batch_size %d"}, {ofSequence, 0,
			"--train.max_seq_length %d"},
			{ofRank, 0, "--lora_r %d"}},
		[]choiceWords{{ofPrecision, map[string]string{"bf16": "--precision bf16-true", "bf16-mixed": "--precision bf16-mixed",
			"int4": "--precision bf16-true --quantize bnb.nf4-dq"}},
			{ofOptimizer, map[string]string{"adamw-8bit": "--optimizer bitsandbytes.optim.AdamW8bit"}}},
	},
	"megatron": {
		[]numberWords{{ofBatch, 0, "--micro-batch-size %d"}, {ofSequence, 0, "--seq-length %d"},
			{ofTP, 1, "--tensor-model-parallel-size %d --sequence-parallel"}, {ofCP, 1, "--context-parallel-size %d"}},
		[]choiceWords{{ofPrecision, map[string]string{"bf16": "--bf16", "bf16-mixed": "--bf16"}},
			{ofRepeated,
				map[string]string{"full": "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"}},
			{ofSharding, map[string]string{"full": "--use-torch-fsdp2"}}},
	},
}

// framework tells a plan in the words of the framework that is asked for, "" where none is
// or it has none.
func (s Setting) framework() string {
	d := dialects[ProfileOf(s.Framework).Name]
	var words []string
	for _, n := range d.numbers {
		if v := n.of(s); v > n.above {
			words = append(words, fmt.Sprintf(n.text, v))
		}
	}
	for _, c := range d.words {
		if w := c.text[c.of(s)]; w != "" {
			words = append(words, w)
		}
	}
	return strings.Join(words, " ")
}
