package recipe

import "strings"

// formats are told in this order: one that has more fields of its own comes before one
// whose fields others have, too.
var formats = []format{
	{
		name: "torchtune recipe", all: []string{"model._component_"}, any: []string{"tokenizer._component_",
			"optimizer._component_"},
		always: []Flag{{"framework", "torchtune"}, {"lora-dtype", "model"}, {"fsdp", "full"}},
		rows: []row{
			{"model._component_", torchtuneModel},
			{"model.lora_rank", number("lora")}, {"model.lora_attn_modules", torchtuneTargets},
			{"model.apply_lora_to_mlp", when()}, {"model.apply_lora_to_output", when()},
			{"model.lora_dropout", share("lora-dropout")}, {"model.use_dora", when(Flag{"dora", "true"})},
			{"model.quantize_base", when(Flag{"precision", "int4"})},
			{"tokenizer.max_seq_len", number("seq")}, {"batch_size", number("batch")},
			{"gradient_accumulation_steps", number("accumulate")},
			{"optimizer._component_", both(optimizer, when())}, {"optimizer.fused", fused},
			{"optimizer_in_bwd", when(Flag{"optimizer-in-backward", "true"})},
			{"loss._component_", found([]string{`chunk|linear`, "loss", "chunked"}, []string{`crossentropy`, "loss",
				"default"})},
			{"dtype", only(unpacked, choice("precision", dtypes))}, {"compile", when(Flag{"compile", "true"})},
			{"enable_activation_checkpointing", when(Flag{"checkpointing", "full"})},
			{"enable_activation_offloading", when(Flag{"activation-offload", "true"})},
			{"ac_option", only(func(f *fields) bool { return f.values["ac_mode"] == "selective" }, word("checkpointing"))},
			{"fsdp_cpu_offload", when(Flag{"offload", "params"})},
			{"tensor_parallel_dim", number("tp")},
		},
	},
	{
		name: "torchtitan configuration", all: []string{"model.flavor"}, any: []string{"training", "parallelism",
			"activation_checkpoint"},
		always: []Flag{{"framework", "torchtitan"}, {"precision", "bf16-mixed"}, {"optimizer", "adamw-fused"}, {"loss",
			"default"},
			{"fsdp", "full"}},
		settle: titanPipeline,
		rows: []row{
			{"model.name", joined("model.name", "model.flavor")}, {"model.flavor", joined("model.name", "model.flavor")},
			{"training.local_batch_size", number("batch")}, {"training.batch_size", number("batch")},
			{"training.seq_len", number("seq")}, {"training.compile", when(Flag{"compile", "true"})},
			{"compile.enable", when(Flag{"compile", "true"})},
			{"training.mixed_precision_param", choice("precision", map[string]string{"bfloat16": "bf16-mixed",
				"float32": "fp32"})},
			{"training.dtype", choice("precision", map[string]string{"bfloat16": "bf16", "float32": "bf16-mixed"})},
			{"training.enable_cpu_offload", when(Flag{"offload", "params"})},
			{"optimizer.name", optimizer}, {"optimizer.implementation", implementation}, {"optimizer.fused", fused},
			{"optimizer.early_step_in_backward", when(Flag{"optimizer-in-backward", "true"})},
			{"parallelism.data_parallel_shard_degree", atLeastNone("")},
			{"parallelism.data_parallel_replicate_degree", aboveOne(Flag{"fsdp", "hybrid"})},
			{"parallelism.tensor_parallel_degree", tensorParallel}, {"parallelism.pipeline_parallel_degree", number("pp")},
			{"parallelism.pipeline_parallel_schedule", schedule}, {"parallelism.context_parallel_degree", number("cp")},
			{"parallelism.expert_parallel_degree", number("ep")}, {"parallelism.pipeline_parallel_microbatch_size", number("")},
			{"activation_checkpoint.mode", titanCheckpointing}, {"activation_checkpoint.selective_ac_option",
				titanCheckpointing},
			{"float8.enable_float8_linear", when(Flag{"float8", "true"})}, {"model.converters", float8},
		},
	},
	{
		name: "axolotl configuration", all: []string{"base_model"},
		any:    []string{"datasets", "micro_batch_size", "sequence_len", "adapter"},
		always: []Flag{{"framework", "transformers"}, {"trainer", "true"}},
		rows: []row{
			{"base_model", word(modelFlag)}, {"sequence_len", number("seq")}, {"micro_batch_size", number("batch")},
			{"gradient_accumulation_steps", number("accumulate")}, {"adapter", found([]string{`lora`})},
			{"lora_r", number("lora")}, {"lora_target_modules",
				only(func(f *fields) bool { return !f.yes("lora_target_linear") }, moduleList)},
			{"lora_target_linear", when(Flag{"lora-targets", "all"})}, {"lora_dropout", share("lora-dropout")},
			{"peft_use_dora", when(Flag{"dora", "true"})}, {"peft_use_rslora", when(Flag{"adapter", "rslora"})},
			{"lora_modules_to_save", word("modules-to-save")},
			{"bnb_config_kwargs.bnb_4bit_use_double_quant", unless(Flag{"plain-scales", "true"})},
			{"load_in_4bit", when(Flag{"precision", "int4"})}, {"load_in_8bit", when(Flag{"precision", "int8"})},
			{"bf16", only(unpacked, found([]string{`^(true|yes|full|auto)$`, "precision", "bf16"}, []string{`false`}))},
			{"bfloat16", only(unpacked, when(Flag{"precision", "bf16"}))}, {"fp16", only(unpacked, when(Flag{"precision",
				"fp16-mixed"}))},
			{"optimizer", optimizer}, {"gradient_checkpointing", unsloth},
			{"flash_attention", when(Flag{"attention", "flash"})}, {"sdp_attention", when(Flag{"attention", "sdpa"})},
			{"eager_attention", when(Flag{"attention", "eager"})}, {"attention", attention}, {"attn_implementation", attention},
			{"torch_compile", when(Flag{"compile", "true"})}, {"deepspeed", stageInName}, {"fsdp", shardings},
			{"fsdp_config.offload_params", when(Flag{"offload", "params"})},
			{"fsdp_config.fsdp_offload_params", when(Flag{"offload", "params"})},
			{"fsdp_config.fsdp_sharding_strategy", shardings}, {"fsdp_version", number("fsdp-version")},
			{"fsdp_config.fsdp_version", number("fsdp-version")}, {"fsdp_config.reshard_after_forward", resharded},
			{"fsdp_config.activation_checkpointing", when(Flag{"checkpointing", "full"})},
			{"liger_fused_linear_cross_entropy", when(Flag{"loss", "fused"})}, {"liger_rms_norm", when(Flag{"liger", "true"})}, {"cut_cross_entropy", when(Flag{"loss",
				"fused"})},
			{"chunked_cross_entropy", when(Flag{"loss", "chunked"})},
			{"tensor_parallel_size", number("tp")}, {"context_parallel_size", number("cp")}, {"expert_parallel_size",
				number("ep")},
		},
	},
	{
		name: "PEFT adapter configuration", all: []string{"peft_type"}, any: []string{"base_model_name_or_path", "task_type",
			"target_modules"},
		settle: peftDefaults,
		rows: []row{
			{"peft_type", peftKind}, {"r", only(isPEFT("lora"), number("lora"))}, {"base_model_name_or_path", word(modelFlag)},
			{"target_modules", only(isPEFT("lora", "ia3"), moduleList)}, {"modules_to_save", word("modules-to-save")},
			{"lora_dropout", share("lora-dropout")}, {"use_dora", when(Flag{"dora", "true"})},
			{"use_rslora", when(Flag{"adapter", "rslora"})},
		},
	},
	{
		name: "LLaMA-Factory configuration", all: []string{"model_name_or_path", "finetuning_type"},
		always: []Flag{{"framework", "transformers"}, {"trainer", "true"}, {"checkpointing", "full"}},
		settle: factoryDefaults,
		rows: append([]row{
			{"finetuning_type", found([]string{`^(lora|full)$`})}, {"cutoff_len", number("seq")},
			{"lora_rank", number("lora")}, {"lora_target", moduleList},
			{"quantization_bit", choice("precision", map[string]string{"4": "int4", "8": "int8"})},
			{"double_quantization", unless(Flag{"plain-scales", "true"})},
			{"use_rslora", when(Flag{"adapter", "rslora"})}, {"additional_target", word("modules-to-save")},
			{"bf16", only(unpacked, factoryPrecision("bf16"))}, {"fp16", only(unpacked, factoryPrecision("fp16"))},
			{"pure_bf16", when(Flag{"precision", "bf16"})},
			{"flash_attn", attention}, {"disable_gradient_checkpointing", when(Flag{"checkpointing", "none"})},
			{"use_unsloth_gc", when(Flag{"checkpointing", "offload"})}, {"enable_liger_kernel", liger},
		}, trainerRows...),
	},
	{
		name: "TrainingArguments", all: []string{"per_device_train_batch_size"},
		always: []Flag{{"framework", "transformers"}, {"trainer", "true"}}, settle: trlDefaults,
		rows: append([]row{
			{"bf16", when(Flag{"precision", "bf16-mixed"})}, {"fp16", when(Flag{"precision", "fp16-mixed"})},
			{"torch_dtype", choice("precision", dtypes)}, {"dtype", choice("precision", dtypes)},
			{"gradient_checkpointing", when(Flag{"checkpointing", "full"})},
			{"max_seq_length", number("seq")}, {"max_length", number("seq")}, {"model_max_length", number("seq")},
			{"attn_implementation", attention}, {"use_liger_kernel", liger}, {"use_liger", liger},
			{"load_in_4bit", when(Flag{"precision", "int4"})}, {"load_in_8bit", when(Flag{"precision", "int8"})},
			{"lora_r", only(withAdapters, number("lora"))}, {"lora_target_modules", only(withAdapters, moduleList)},
			{"lora_modules_to_save", only(withAdapters, word("modules-to-save"))},
			{"use_rslora", only(withAdapters, when(Flag{"adapter", "rslora"}))},
			{"use_bnb_nested_quant", unless(Flag{"plain-scales", "true"})}, {"use_peft", when()},
		}, trainerRows...),
	},
	{
		name: "accelerate configuration", all: []string{"distributed_type"}, any: []string{"num_processes",
			"compute_environment"},
		rows: []row{
			{"num_processes", number("gpus")},
			{"mixed_precision", choice("precision", map[string]string{"bf16": "bf16-mixed", "fp16": "fp16-mixed",
				"fp8": "fp8-mixed"})},
			{"distributed_type", found([]string{`^fsdp$`, "fsdp", "full"}, []string{`deepspeed|multi_gpu|^no$`})},
			{"fsdp_config.fsdp_sharding_strategy", shardings}, {"fsdp_config.fsdp_version", number("fsdp-version")},
			{"fsdp_config.fsdp_reshard_after_forward", resharded},
			{"fsdp_config.fsdp_offload_params", when(Flag{"offload", "params"})},
			{"fsdp_config.fsdp_activation_checkpointing", when(Flag{"checkpointing", "full"})},
			{"parallelism_config.parallelism_config_tp_size", number("tp")},
			{"parallelism_config.parallelism_config_cp_size", number("cp")},
			{"dynamo_config.dynamo_backend", found([]string{`inductor`, "compile", "true"}, []string{`^no$`})},
			{"deepspeed_config.zero_stage", atLeastNone("zero")},
			{"deepspeed_config.offload_optimizer_device", offloaded("optimizer")},
			{"deepspeed_config.offload_param_device", offloaded("params")},
			{"deepspeed_config.gradient_accumulation_steps", number("accumulate")},
			{"deepspeed_config.deepspeed_config_file", stageInName},
		},
	},
	{
		name: "DeepSpeed configuration",
		any:  []string{"zero_optimization", "train_micro_batch_size_per_gpu", "zero_allow_untested_optimizer"},
		rows: deepspeedRows(""),
	},
	{
		name: "Megatron arguments", all: []string{"num-layers", "hidden-size"},
		any:    []string{"micro-batch-size", "tensor-model-parallel-size", "seq-length"},
		always: []Flag{{"framework", "megatron"}, {"optimizer", "adamw-fused"}},
		settle: megatronModel,
		rows: []row{
			{"num-layers", number(shapeFlag + "num_hidden_layers")}, {"hidden-size", number(shapeFlag + "hidden_size")},
			{"ffn-hidden-size", number(shapeFlag + "intermediate_size")}, {"num-attention-heads",
				number(shapeFlag + "num_attention_heads")},
			{"num-query-groups", number(shapeFlag + "num_key_value_heads")}, {"group-query-attention", when()},
			{"kv-channels", number(shapeFlag + "head_dim")}, {"vocab-size", number(shapeFlag + "vocab_size")},
			{"max-position-embeddings", number(shapeFlag + "max_position_embeddings")},
			{"make-vocab-size-divisible-by", number("")}, {"swiglu", when()}, {"normalization", word("")},
			{"position-embedding-type", word("")}, {"disable-bias-linear", when()}, {"add-qkv-bias", when()},
			{"untie-embeddings-and-output-weights", when(Flag{shapeFlag + "tie_word_embeddings", "false"})},
			{"num-experts", number(shapeFlag + "num_local_experts")}, {"moe-router-topk",
				number(shapeFlag + "num_experts_per_tok")},
			{"moe-ffn-hidden-size", number(shapeFlag + "intermediate_size")},
			{"seq-length", number("seq")}, {"micro-batch-size", number("batch")}, {"global-batch-size", number("")},
			{"tensor-model-parallel-size", number("tp")}, {"pipeline-model-parallel-size", number("pp")},
			{"context-parallel-size", number("cp")}, {"expert-model-parallel-size", number("ep")},
			{"num-layers-per-virtual-pipeline-stage", number("")}, {"num-virtual-stages-per-pipeline-rank", number("")},
			{"sequence-parallel", only(func(f *fields) bool { return f.values["tensor-model-parallel-size"] > "1" },
				when(Flag{"sequence-parallel", "true"}))},
			{"bf16", when(Flag{"precision", "bf16"}, Flag{"master-weights", "true"})},
			{"fp16", when(Flag{"precision", "fp16"}, Flag{"master-weights", "true"})},
			{"use-distributed-optimizer", when(Flag{"zero", "1"})}, {"use-torch-fsdp2", when(Flag{"fsdp", "full"})},
			{"recompute-activations", when(Flag{"checkpointing", "selective"})}, {"recompute-granularity", recompute},
			{"recompute-method", word("")}, {"recompute-num-layers", number("")},
			{"use-flash-attn", when(Flag{"attention", "flash"})}, {"attention-backend", attention},
			{"optimizer", optimizer}, {"optimizer-cpu-offload", when(Flag{"offload", "optimizer"})},
			{"nproc-per-node", number("")}, {"nnodes", number("")},
		},
	},
	{
		name: "vLLM arguments", all: []string{"model"}, any: []string{"gpu-memory-utilization", "max-num-seqs",
			"max-model-len", "vllm"},
		always: []Flag{{"inference", "true"}}, settle: servingByPieces,
		rows: []row{
			{"vllm", word("")}, {"m", word("")}, {"model", word(modelFlag)}, {"tensor-parallel-size", number("tp")}, {"tp",
				number("tp")},
			{"pipeline-parallel-size", number("pp")}, {"pp", number("pp")}, {"max-model-len", number("context")},
			{"max-num-seqs", number("batch")}, {"dtype", choice("precision", dtypes)}, {"kv-cache-dtype", cacheType},
			{"quantization", packedAs}, {"q", packedAs}, {"enable-expert-parallel", when()}, {"max-num-batched-tokens",
				number("")},
		},
	},
	{
		name: "SGLang arguments", any: []string{"model-path"}, always: []Flag{{"inference", "true"}},
		settle: servingByPieces,
		rows: []row{
			{"m", word("")}, {"model-path", word(modelFlag)}, {"tp-size", number("tp")}, {"tensor-parallel-size",
				number("tp")}, {"tp", number("tp")},
			{"pp-size", number("pp")}, {"pipeline-parallel-size", number("pp")}, {"ep-size", number("ep")}, {"ep",
				number("ep")},
			{"context-length", number("context")}, {"max-running-requests", number("batch")}, {"dtype", choice("precision",
				dtypes)},
			{"kv-cache-dtype", cacheType}, {"quantization", packedAs}, {"chunked-prefill-size", number("")},
		},
	},
}

// trainerRows are fields of Transformers' TrainingArguments.
var trainerRows = append([]row{
	{"model_name_or_path", word(modelFlag)}, {"per_device_train_batch_size", number("batch")},
	{"gradient_accumulation_steps", number("accumulate")}, {"optim", optimizer}, {"lora_dropout", only(withAdapters,
		share("lora-dropout"))},
	{"label_smoothing_factor", found([]string{`[1-9]`, "loss", "smoothed"}, []string{`^[0.]+$`})},
	{"use_dora", only(withAdapters, when(Flag{"dora", "true"}))}, {"torch_compile", when(Flag{"compile", "true"})},
	{"deepspeed", stageInName}, {"fsdp", shardings}, {"fsdp_config.version", number("fsdp-version")},
	{"world_size", number("gpus")},
}, deepspeedRows("deepspeed.")...)

// deepspeedRows are the fields of a DeepSpeed configuration, below a name.
func deepspeedRows(at string) []row {
	rows := []row{
		{"zero_optimization.stage", atLeastNone("zero")},
		{"zero_optimization.offload_optimizer.device", offloaded("optimizer")},
		{"zero_optimization.offload_param.device", offloaded("params")},
		{"zero_optimization.reduce_bucket_size", bucket("reduce-bucket")},
		{"zero_optimization.allgather_bucket_size", number("")}, // gathered in place
		{"zero_optimization.stage3_prefetch_bucket_size", prefetch},
		{"zero_optimization.stage3_max_live_parameters", bucket("live-parameters")},
		{"zero_optimization.overlap_comm", when(Flag{"overlap-comm", "true"})},
		{"zero_optimization.contiguous_gradients", when()},
		{"bf16.enabled", when(Flag{"precision", "bf16"}, Flag{"master-weights", "true"})},
		{"fp16.enabled", when(Flag{"precision", "fp16"}, Flag{"master-weights", "true"})},
		{"train_micro_batch_size_per_gpu", number("batch")}, {"gradient_accumulation_steps", number("accumulate")},
		{"optimizer.type", optimizer},
	}
	for i := range rows {
		rows[i].field = at + rows[i].field
	}
	return rows
}

var dtypes = map[string]string{"bf16": "bf16", "bfloat16": "bf16", "torch.bfloat16": "bf16", "fp32": "fp32", "float32": "fp32",
	"float": "fp32", "fp16": "fp16", "float16": "fp16", "half": "fp16"}

var (
	cacheType = found([]string{`fp8`, "kv", "fp8"}, []string{`int8`, "kv", "int8"}, []string{`bfloat16|float16|auto`})
	packedAs  = found([]string{`bitsandbytes|awq|gptq|int4|w4a16|nf4|marlin`, "precision", "int4"}, []string{`fp8|int8|w8a8`,
		"precision", "int8"})
	schedule = found([]string{`interleaved`, "schedule", "interleaved"}, []string{`gpipe`, "schedule", "gpipe"},
		[]string{`zbv|zerobubble`, "schedule", "zbv"}, []string{`1f1b`, "schedule", "1f1b"})
	liger     = when(Flag{"liger", "true"}, Flag{"loss", "fused"})
	recompute = choice("checkpointing", map[string]string{"selective": "selective", "full": "full"})
	unsloth   = found([]string{`offload|unsloth`, "checkpointing", "offload"}, []string{`^(true|yes)$`, "checkpointing",
		"full"},
		[]string{`^(false|no)$`, "checkpointing", "none"})
	float8 = found([]string{`float8`, "float8", "true"})
)

func unpacked(f *fields) bool {
	return !f.yes("load_in_4bit") && !f.yes("load_in_8bit") && !isSet(f.values["quantization_bit"]) && !f.yes("pure_bf16") &&
		!strings.Contains(f.values["model._component_"], ".qlora_") && !f.yes("model.quantize_base")
}

// withAdapters says whether a file with fields of LoRA trains by it.
func withAdapters(f *fields) bool {
	return f.yes("use_peft") || strings.Contains(f.values["finetuning_type"], "lora")
}
