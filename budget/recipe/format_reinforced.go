package recipe

import (
	"cmp"
	"strconv"
	"strings"
)

// Files of frameworks that train on answers, and of those whose settings name one another.

var openRLHF = format{
	name: "OpenRLHF arguments", all: []string{"pretrain", "micro_train_batch_size"},
	always: []Flag{{"framework", "openrlhf"}, {"precision", "bf16"}, {"optimizer", "adamw-fused"}, {"checkpointing", "none"},
		{"attention", "flash"}},
	settle: openRLHFTrainers,
	rows: []row{
		{"pretrain", word(modelFlag)}, {"micro_train_batch_size", number("batch")}, {"train_batch_size", number("")},
		{"max_len", number("seq")}, {"prompt_max_len", number("")}, {"generate_max_len", number("")},
		{"zero_stage", atLeastNone("zero")}, {"bf16", anyValue}, {"param_dtype", unpacked(choice("precision", dtypes))},
		{"gradient_checkpointing", when(Flag{"checkpointing", "full"})}, {"adam_offload", when(Flag{"offload", "optimizer"})},
		{"lora_rank", atLeastNone("lora")}, {"target_modules", moduleList}, {"lora_dropout", share("lora-dropout")},
		{"load_in_4bit", when(Flag{"precision", "int4"})}, {"attn_implementation", attention}, {"flash_attn", anyValue},
		{"packing_samples", anyValue}, {"ref_offload", anyValue}, {"ds_tensor_parallel_size", number("tp")},
		{"ring_attn_size", number("cp")}, {"chosen_key", anyValue}, {"rejected_key", anyValue}, {"actor_num_gpus_per_node",
			number("")}, {"actor_num_nodes", number("")}, {"use_liger_kernel", liger}, {"overlap_comm", when(Flag{"overlap-comm",
			"true"})}, {"num_gpus", number("gpus")}, {"nproc_per_node", number("gpus")},
	},
}

// openRLHFTrainers: PPO's actor sees prompts and answers; pairs have a reference beside; DeepSpeed keeps float32 copies.
func openRLHFTrainers(f *fields, r *Recipe) {
	full := f.count("lora_rank") == 0
	if !f.has("zero_stage") {
		r.unasked(Flag{"zero", "2"})
	}
	if full {
		r.implied(Flag{"master-weights", "true"})
	}
	if n := f.count("actor_num_gpus_per_node") * max(f.count("actor_num_nodes"), 1); n > 0 {
		r.implied(Flag{"gpus", strconv.FormatInt(n, 10)})
	}
	if n := f.count("prompt_max_len") + f.count("generate_max_len"); n > 0 {
		r.implied(Flag{"seq", strconv.FormatInt(n, 10)})
		r.Open = append(r.Open, "what generates the answers, and its cache")
	}
	if f.has("chosen_key") {
		r.inPairs(f.count("micro_train_batch_size"), !full)
	}
}

// verl's settings are Hydra's: those of the actor that learns count.
var verl = format{
	name: "verl arguments", any: []string{"actor_rollout_ref.model.path", "model.partial_pretrain"},
	always: []Flag{{"framework", "verl"}, {"precision", "bf16-mixed"}, {"fsdp", "full"}, {"fsdp-version", "1"},
		{"attention", "flash"}},
	settle: verlActor,
	rows: append(append([]row{
		{"data.max_prompt_length", number("")}, {"data.max_response_length", number("")}, {"data.train_batch_size", number("")},
		{"data.max_length", number("seq")}, {"data.micro_batch_size_per_gpu", number("batch")},
		{"data.micro_batch_size", number("batch")}, {"trainer.n_gpus_per_node", number("")}, {"trainer.nnodes", number("")},
		{"nproc_per_node", number("gpus")}, {"model.partial_pretrain", word(modelFlag)}, {"ulysses_sequence_parallel_size",
			number("cp")}, {"model.fsdp_config.offload_params", when(Flag{"offload", "params"})},
	}, verlModel("model.")...), append(verlModel("actor_rollout_ref.model."), []row{
		{"actor_rollout_ref.model.path", word(modelFlag)},
		{"actor_rollout_ref.actor.strategy", found([]string{`^fsdp$`}, []string{`^fsdp2$`, "fsdp-version", "2"})},
		{"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", number("batch")},
		{"actor_rollout_ref.actor.ppo_mini_batch_size", number("")}, {"actor_rollout_ref.actor.use_dynamic_bsz", anyValue},
		{"actor_rollout_ref.actor.ppo_max_token_len_per_gpu", number("")},
		{"actor_rollout_ref.actor.ulysses_sequence_parallel_size", number("cp")},
		{"actor_rollout_ref.actor.fsdp_config.param_offload", none},
		{"actor_rollout_ref.actor.fsdp_config.optimizer_offload", none},
		{"actor_rollout_ref.actor.use_kl_loss", anyValue}, {"actor_rollout_ref.ref.fsdp_config.param_offload", anyValue},
		{"actor_rollout_ref.rollout.gpu_memory_utilization", none}, {"actor_rollout_ref.rollout.free_cache_engine", anyValue},
	}...)...),
}

func verlModel(at string) []row {
	return []row{
		{at + "enable_gradient_checkpointing", when(Flag{"checkpointing", "full"})},
		{at + "enable_activation_offload", when(Flag{"activation-offload", "true"})},
		{at + "lora_rank", atLeastNone("lora")}, {at + "target_modules", moduleList}, {at + "use_liger", liger},
		{at + "use_remove_padding", anyValue},
	}
}

// verlActor: with batches by tokens, one row holds as many as fit; else a row is a prompt and its answer.
func verlActor(f *fields, r *Recipe) {
	if n := f.count("trainer.n_gpus_per_node") * max(f.count("trainer.nnodes"), 1); n > 0 {
		r.implied(Flag{"gpus", strconv.FormatInt(n, 10)})
	}
	if !f.has("actor_rollout_ref") {
		return
	}
	row := cmp.Or(f.count("data.max_prompt_length"), 512) + cmp.Or(f.count("data.max_response_length"), 512)
	if tokens := f.count("actor_rollout_ref.actor.ppo_max_token_len_per_gpu"); f.yes("actor_rollout_ref.actor.use_dynamic_bsz") {
		row = cmp.Or(tokens, 16384)
		r.implied(Flag{"batch", "1"})
	}
	r.implied(Flag{"seq", strconv.FormatInt(row, 10)})
	r.Open = append(r.Open, "the reference model and what generates the answers, where they stay on the GPU")
}

var foundry = format{
	name: "llm-foundry configuration", all: []string{"max_seq_len", "model"}, any: []string{"device_train_microbatch_size",
		"global_train_batch_size"},
	always: []Flag{{"framework", "transformers"}, {"optimizer", "adamw-loop"}, {"precision", "bf16-mixed"}},
	settle: foundryRanks,
	rows: []row{
		{"max_seq_len", number("seq")}, {"model.pretrained_model_name_or_path", word(modelFlag)}, {"model.name", word("")},
		{"model.use_flash_attention_2", when(Flag{"attention", "flash"})}, {"device_train_microbatch_size", number("batch")},
		{"global_train_batch_size", number("")}, {"precision", choice("precision", map[string]string{"amp_bf16": "bf16-mixed",
			"amp_fp16": "fp16-mixed", "fp32": "fp32"})}, {"optimizer.name", found([]string{`lion`, "optimizer", "lion"},
			[]string{`adamw`})},
		{"fsdp_config.sharding_strategy", shardings}, {"fsdp_config.activation_checkpointing", when(Flag{"checkpointing",
			"full"})}, {"fsdp_config.activation_cpu_offload", when(Flag{"activation-offload", "true"})},
		{"fsdp_config.mixed_precision", found([]string{`^default$`, "reduce-dtype", "fp32"}, []string{`^pure$`})},
		{"model.peft_config.r", number("lora")}, {"model.peft_config.target_modules", moduleList},
		{"model.peft_config.lora_dropout", share("lora-dropout")}, {"num_gpus", number("gpus")}, {"gpus", number("gpus")},
	},
}

// foundryRanks: Composer's FSDP is the first, and a mosaicml name gives the shape of no published model.
func foundryRanks(f *fields, r *Recipe) {
	if f.has("fsdp_config") {
		r.implied(Flag{"fsdp-version", "1"})
	}
	if name := f.values["model.name"]; r.Model == "" && name != "" {
		r.Model = strings.ReplaceAll(name, "_causal_lm", "")
	}
}

// titanNamed is torchtitan since its settings are Python: a module and the name of a function, and arguments that change it.
var titanNamed = format{
	name: "torchtitan arguments", all: []string{"module", "config"}, always: titanAlways, settle: titanDefaults,
	rows: append([]row{{"module", anyValue}, {"config", titanConfig}}, titanRows...),
}

// titanConfig names a model and its size.
func titanConfig(v string, f *fields) ([]Flag, bool) {
	return []Flag{{modelFlag, strings.ReplaceAll(v, "_", " ")}}, v != ""
}

// titanDefaults are those of torchtitan's Trainer.Config, which a named function may change: its models of 8B and more train
// one sequence of 8,192 tokens.
func titanDefaults(f *fields, r *Recipe) {
	for _, x := range []struct{ field, flag, value string }{{"training.local_batch_size", "batch", "1"},
		{"training.seq_len", "seq", "8192"}} {
		if !f.has(x.field) {
			r.unasked(Flag{x.flag, x.value})
		}
	}
	if f.has("activation_checkpoint.mode") || f.has("activation_checkpoint.selective_ac_option") {
		titanPipeline(f, r)
		return
	}
	r.unasked(Flag{"checkpointing", "op"})
	titanPipeline(f, r)
}
