package recipe

import (
	"slices"
	"strings"
)

// formats are told in this order: one that has more fields of its own comes before one
// whose fields others have, too.
var formats = []format{
	openRLHF, verl, foundry, titanNamed,
	{
		name: "torchtune recipe", all: []string{"model._component_"}, any: []string{"tokenizer._component_",
			"optimizer._component_"},
		always: []Flag{{"framework", "torchtune"}, {"lora-dtype", "model"}, {"fsdp", "full"}, {"fsdp-ends", "together"}},
		settle: torchtuneAlone,
		rows: []row{
			{"model._component_", torchtuneModel},
			{"model.lora_rank", number("lora")}, {"model.lora_attn_modules", torchtuneTargets},
			{"model.apply_lora_to_mlp", anyValue}, {"model.apply_lora_to_output", anyValue},
			{"model.lora_dropout", share("lora-dropout")}, {"model.use_dora", when(Flag{"dora", "true"})},
			{"model.quantize_base", when(Flag{"precision", "int4"})},
			{"tokenizer.max_seq_len", number("seq")}, {"batch_size", number("batch")},
			{"gradient_accumulation_steps", number("accumulate")},
			{"optimizer._component_", optimizer}, {"optimizer.fused", fused},
			{"optimizer_in_bwd", when(Flag{"optimizer-in-backward", "true"})},
			{"loss._component_", found([]string{`chunk|linear`, "loss", "chunked"}, []string{`crossentropy`, "loss",
				"default"})},
			{"dtype", unpacked(choice("precision", dtypes))}, {"compile", when(Flag{"compile", "true"})},
			{"enable_activation_checkpointing", when(Flag{"checkpointing", "full"})},
			{"enable_activation_offloading", when(Flag{"activation-offload", "true"})},
			{"ac_option", only(func(f *fields) bool { return f.values["ac_mode"] == "selective" }, word("checkpointing"))},
			{"custom_sharded_layers", found([]string{`tok_embeddings|output`, "fsdp-ends", "apart"})},
			{"fsdp_cpu_offload", when(Flag{"offload", "params"})}, {"enable_fp8_training", when(Flag{"float8", "true"})},
			{"fp8_recipe_name", only(func(f *fields) bool { return f.yes("enable_fp8_training") }, word("float8-recipe"))},
			{"tensor_parallel_dim", number("tp")}, {"context_parallel_dim", number("cp")},
		},
	},
	{
		name: "torchtitan configuration", all: []string{"model.flavor"}, any: []string{"training", "parallelism",
			"activation_checkpoint"},
		always: titanAlways,
		settle: titanPipeline,
		rows:   titanRows,
	},
	{
		name: "axolotl configuration", all: []string{"base_model"},
		any:    []string{"datasets", "micro_batch_size", "sequence_len", "adapter"},
		always: []Flag{{"framework", "axolotl"}, {"trainer", "true"}}, settle: axolotlShards,
		rows: []row{
			{"base_model", word(modelFlag)}, {"sequence_len", number("seq")}, {"micro_batch_size", number("batch")},
			{"gradient_accumulation_steps", number("accumulate")}, {"adapter", found([]string{`lora`})},
			{"lora_r", adapted(number("lora"))}, {"lora_target_modules", adapted(axolotlTargets)},
			{"lora_target_linear", adapted(when(Flag{"lora-targets", "all"}))}, {"lora_dropout", adapted(share("lora-dropout"))},
			{"peft_use_dora", adapted(when(Flag{"dora", "true"}))}, {"peft_use_rslora", adapted(when(Flag{"adapter", "rslora"}))},
			{"lora_modules_to_save", adapted(word("modules-to-save"))}, {"rl", preferences},
			{"bnb_config_kwargs.bnb_4bit_use_double_quant", unless(Flag{"plain-scales", "true"})},
			{"load_in_4bit", when(Flag{"precision", "int4"})}, {"load_in_8bit", when(Flag{"precision", "int8"})},
			{"bf16", unpacked(found([]string{`^(true|yes|full|auto)$`, "precision", "bf16"}, []string{`false`}))},
			{"bfloat16", unpacked(when(Flag{"precision", "bf16"}))}, {"fp16", unpacked(when(Flag{"precision",
				"fp16-mixed"}))},
			{"optimizer", optimizer}, {"gradient_checkpointing", unsloth}, {"torch_dtype", unpacked(choice("precision", dtypes))},
			{"flash_attention", when(Flag{"attention", "flash"})}, {"sdp_attention", when(Flag{"attention", "sdpa"})},
			{"eager_attention", when(Flag{"attention", "eager"})}, {"attention", attention}, {"attn_implementation", attention},
			{"fp8", when(Flag{"float8", "true"})}, {"fp8_enable_fsdp_float8_all_gather",
				only(func(f *fields) bool { return f.yes("fp8") }, when(Flag{"float8-all-gather", "true"}))},
			{"torch_compile", when(Flag{"compile", "true"})}, {"torch_compile_mode", compileMode},
			{"deepspeed", stageInName}, {"fsdp", shardings},
			{"fsdp_config.offload_params", when(Flag{"offload", "params"})},
			{"fsdp_config.fsdp_offload_params", when(Flag{"offload", "params"})},
			{"fsdp_config.fsdp_sharding_strategy", shardings}, {"fsdp_config.sharding_strategy", shardings},
			{"dp_shard_size", number("")}, {"dp_replicate_size", aboveOne(Flag{"fsdp", "hybrid"})},
			{"sequence_parallel_degree", number("cp")}, {"fsdp_version", number("fsdp-version")},
			{"fsdp_config.fsdp_version", number("fsdp-version")}, {"fsdp_config.reshard_after_forward", resharded},
			{"fsdp_config.activation_checkpointing", when(Flag{"checkpointing", "full"})},
			{"plugins", axolotlPlugins}, {"sample_packing", anyValue}, {"pad_to_sequence_len", anyValue},
			{"activation_offloading", found([]string{`^(true|yes|legacy|disk|hidden_states)$`, "activation-offload", "true"},
				[]string{`^(false|no)$`})},
			{"quantize_moe_experts", none}, {"liger_rms_norm", when(Flag{"liger", "true"})},
			{"liger_fused_linear_cross_entropy", when(Flag{"loss", "fused"})}, {"cut_cross_entropy", when(Flag{"loss",
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
			{"stage", found([]string{`^(sft|pt)$`}, []string{ofPairs})},
			{"lora_rank", adapted(number("lora"))}, {"lora_target", adapted(moduleList)},
			{"quantization_bit", choice("precision", map[string]string{"4": "int4", "8": "int8"})},
			{"double_quantization", unless(Flag{"plain-scales", "true"})},
			{"use_rslora", when(Flag{"adapter", "rslora"})}, {"additional_target", adapted(word("modules-to-save"))},
			{"use_galore", when(Flag{"optimizer", "galore"})}, {"use_apollo", when(Flag{"optimizer", "apollo"})},
			{"packing", anyValue}, {"neat_packing", anyValue}, {"pref_loss", anyValue},
			{"use_adam_mini", when(Flag{"optimizer", "adam-mini"})}, {"use_muon", when(Flag{"optimizer", "muon-adamw"})},
			{"galore_layerwise", when(Flag{"optimizer-in-backward", "true"})},
			{"apollo_layerwise", when(Flag{"optimizer-in-backward", "true"})},
			{"use_unsloth", when(Flag{"checkpointing", "offload"})},
			{"bf16", unpacked(factoryPrecision("bf16"))}, {"fp16", unpacked(factoryPrecision("fp16"))},
			{"pure_bf16", when(Flag{"precision", "bf16"})},
			{"flash_attn", attention}, {"disable_gradient_checkpointing", when(Flag{"checkpointing", "none"})},
			{"use_unsloth_gc", when(Flag{"checkpointing", "offload"})}, {"enable_liger_kernel", liger},
		}, trainerRows...),
	},
	{
		name: "Megatron-SWIFT arguments", all: []string{"micro_batch_size"}, any: []string{"model", "mcore_model", "load"},
		beside: []string{"recompute_granularity", "tensor_model_parallel_size", "expert_model_parallel_size", "finetune"},
		always: []Flag{{"framework", "megatron"}, {"precision", "bf16"}, {"optimizer", "adamw-fused"}}, settle: megatronSwift,
		rows: []row{
			{"model", word(modelFlag)}, {"tuner_type", found([]string{`^(lora|full)$`})},
			{"train_type", found([]string{`^(lora|full)$`})},
			{"rlhf_type", preferences}, {"lora_rank", adapted(number("lora"))}, {"target_modules", adapted(moduleList)},
			{"modules_to_save", adapted(word("modules-to-save"))}, {"micro_batch_size", number("batch")},
			{"global_batch_size", number("")}, {"max_length", number("seq")}, {"tensor_model_parallel_size", number("tp")},
			{"pipeline_model_parallel_size", number("pp")}, {"context_parallel_size", number("cp")},
			{"expert_model_parallel_size", number("ep")}, {"sequence_parallel", splitSequences}, {"packing", anyValue},
			{"padding_free", anyValue}, {"recompute_granularity", recompute}, {"recompute_method", word("")},
			{"recompute_num_layers", number("")}, {"attention_backend", attention}, {"cross_entropy_loss_fusion", anyValue},
			{"optimizer_cpu_offload", when(Flag{"offload", "optimizer"})}, {"nproc_per_node", number("")}, {"nnodes", number("")},
		},
	},
	{
		name: "ms-swift arguments", any: []string{"train_type", "tuner_type"},
		always: []Flag{{"framework", "transformers"}, {"trainer", "true"}, {"checkpointing", "full"}, {"precision", "bf16"}},
		settle: swiftDefaults,
		rows: append([]row{
			{"model", word(modelFlag)}, {"model_id_or_path", word(modelFlag)}, {"train_type", found([]string{`^(lora|full)$`})},
			{"tuner_type", found([]string{`^(lora|full)$`})}, {"lora_rank", adapted(number("lora"))},
			{"target_modules", adapted(moduleList)},
			{"quant_bits", choice("precision", map[string]string{"4": "int4", "8": "int8"})}, {"rlhf_type", preferences},
			{"use_galore", when(Flag{"optimizer", "galore"})},
			{"galore_optim_per_parameter", when(Flag{"optimizer-in-backward", "true"})},
			{"modules_to_save", adapted(word("modules-to-save"))}, {"packing", anyValue}, {"padding_free", anyValue},
			{"activation_cpu_offload", when(Flag{"activation-offload", "true"})},
			{"attn_impl", attention}, {"bf16", anyValue}, {"sequence_parallel_size", number("cp")}, {"freeze_vit", none},
		}, argumentRows...),
	},
	{
		name: "TRL arguments", any: []string{"model_name_or_path", "per_device_train_batch_size"}, beside: trlFields,
		always: trlAlways, settle: trlTrainers, rows: trlRows,
	},
	{
		name: "TrainingArguments", all: []string{"per_device_train_batch_size"},
		always: []Flag{{"framework", "transformers"}, {"trainer", "true"}}, settle: modelDefaults, rows: argumentRows,
	},
	{
		name: "TRL arguments", all: []string{"model_name_or_path", "learning_rate"}, any: []string{"dataset_name", "datasets"},
		always: trlAlways, settle: trlTrainers, rows: trlRows,
	},
	{
		name: "litgpt configuration", all: []string{"train.micro_batch_size"}, any: []string{"checkpoint_dir", "model_name",
			"model.name", "tokenizer_dir", "out_dir"},
		always: []Flag{{"framework", "litgpt"}, {"precision", "bf16-mixed"}, {"lora-dtype", "model"}},
		settle: litgptRanks,
		rows: []row{
			{"checkpoint_dir", word(modelFlag)}, {"model_name", word(modelFlag)}, {"model.name", litgptModel},
			{"precision", found([]string{`^bf16-true$`, "precision", "bf16"}, []string{`^16-true$`, "precision", "fp16"},
				[]string{`^bf16-mixed$`, "precision", "bf16-mixed"}, []string{`^16-mixed$`, "precision", "fp16-mixed"},
				[]string{`^32`, "precision", "fp32"})},
			{"quantize", found([]string{`4-dq$`, "precision", "int4"},
				[]string{`(nf4|fp4)$`, "precision", "int4", "plain-scales", "true"}, []string{`int8`, "precision", "int8"})},
			{"devices", number("")}, {"num_nodes", number("")}, {"lora_r", number("lora")},
			{"lora_dropout", share("lora-dropout")}, {"lora_query", litgptTargets}, {"lora_key", anyValue},
			{"lora_value", anyValue}, {"lora_projection", anyValue},
			{"lora_mlp", anyValue}, {"lora_head", anyValue}, {"train.micro_batch_size", number("batch")},
			{"train.max_seq_length", number("seq")}, {"train.global_batch_size", number("")}, {"optimizer", optimizer},
			{"optimizer.class_path", optimizer},
		},
	},
	{
		name: "accelerate configuration", computes: true, all: []string{"distributed_type"}, any: []string{"num_processes",
			"compute_environment"},
		rows: []row{
			{"num_processes", number("gpus")},
			{"mixed_precision", choice("precision", map[string]string{"bf16": "bf16-mixed", "fp16": "fp16-mixed",
				"fp8": "fp8-mixed", "no": "fp32"})},
			{"distributed_type", found([]string{`^fsdp$`, "fsdp", "full"}, []string{`deepspeed|multi_gpu|^no$`})},
			{"fsdp_config.fsdp_sharding_strategy", shardings}, {"fsdp_config.fsdp_version", number("fsdp-version")},
			{"fsdp_config.fsdp_reshard_after_forward", resharded},
			{"fsdp_config.fsdp_offload_params", when(Flag{"offload", "params"})},
			{"fsdp_config.fsdp_activation_checkpointing", when(Flag{"checkpointing", "full"})},
			{"parallelism_config.parallelism_config_tp_size", number("tp")},
			{"parallelism_config.parallelism_config_cp_size", number("cp")},
			{"dynamo_config.dynamo_backend", found([]string{`inductor`, "compile", "true"}, []string{`^no$`})},
			{"dynamo_config.dynamo_mode", compileMode},
			{"deepspeed_config.zero_stage", atLeastNone("zero")},
			{"deepspeed_config.offload_optimizer_device", offloaded("optimizer")},
			{"deepspeed_config.offload_param_device", offloaded("params")},
			{"deepspeed_config.gradient_accumulation_steps", number("accumulate")},
			{"deepspeed_config.deepspeed_config_file", stageInName},
		},
	},
	{
		name: "DeepSpeed configuration", computes: true,
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
			{"num-query-groups", number(shapeFlag + "num_key_value_heads")}, {"group-query-attention", anyValue},
			{"kv-channels", number(shapeFlag + "head_dim")}, {"vocab-size", number(shapeFlag + "vocab_size")},
			{"max-position-embeddings", number(shapeFlag + "max_position_embeddings")},
			{"make-vocab-size-divisible-by", number("")}, {"swiglu", anyValue}, {"normalization", word("")},
			{"position-embedding-type", word("")}, {"disable-bias-linear", anyValue}, {"add-qkv-bias", anyValue},
			{"untie-embeddings-and-output-weights", when(Flag{shapeFlag + "tie_word_embeddings", "false"})},
			{"num-experts", number(shapeFlag + "num_local_experts")}, {"moe-router-topk",
				number(shapeFlag + "num_experts_per_tok")},
			{"moe-ffn-hidden-size", number(shapeFlag + "intermediate_size")},
			{"seq-length", number("seq")}, {"micro-batch-size", number("batch")}, {"global-batch-size", number("")},
			{"tensor-model-parallel-size", number("tp")}, {"pipeline-model-parallel-size", number("pp")},
			{"context-parallel-size", number("cp")}, {"expert-model-parallel-size", number("ep")},
			{"num-layers-per-virtual-pipeline-stage", number("")}, {"num-virtual-stages-per-pipeline-rank", number("")},
			{"sequence-parallel", splitSequences}, {"zero-stage", atLeastNone("zero")},
			{"bf16", when(Flag{"precision", "bf16"}, Flag{"master-weights", "true"}, Flag{"gradient-dtype", "fp32"})},
			{"grad-reduce-in-bf16", when(Flag{"gradient-dtype", ""})},
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
		always: []Flag{{"inference", "true"}, {"engine", "vllm"}}, settle: servingByPieces,
		rows: []row{
			{"gpu-memory-utilization", share("gpu-share")},
			{"vllm", word("")}, {"m", word("")}, {"model", word(modelFlag)},
			{"tensor-parallel-size", number("tp")}, {"tp", number("tp")},
			{"pipeline-parallel-size", number("pp")}, {"pp", number("pp")}, {"max-model-len", number("context")},
			{"max-num-seqs", number("batch")}, {"dtype", served}, {"kv-cache-dtype", cacheType},
			{"quantization", packedAs}, {"q", packedAs}, {"enable-expert-parallel", anyValue}, {"max-num-batched-tokens",
				number("batch-tokens")}, {"data-parallel-size", number("")}, {"dp", number("")},
		},
	},
	{
		name: "SGLang arguments", any: []string{"model-path", "model"}, beside: sglangFields,
		always: []Flag{{"inference", "true"}, {"engine", "sglang"}},
		settle: servingByPieces,
		rows: []row{
			{"sglang", anyValue}, {"model", word(modelFlag)}, {"mem-fraction-static", share("gpu-share")},
			{"m", word("")}, {"model-path", word(modelFlag)}, {"tp-size", number("tp")}, {"tensor-parallel-size",
				number("tp")}, {"tp", number("tp")},
			{"pp-size", number("pp")}, {"pipeline-parallel-size", number("pp")}, {"ep-size", number("ep")}, {"ep",
				number("ep")},
			{"context-length", number("context")}, {"max-running-requests", number("batch")}, {"dtype", served},
			{"kv-cache-dtype", cacheType}, {"quantization", packedAs}, {"chunked-prefill-size", number("batch-tokens")},
		},
	},
}

var titanAlways = []Flag{{"framework", "torchtitan"}, {"precision", "bf16-mixed"}, {"optimizer", "adamw-fused"},
	{"loss", "default"}, {"fsdp", "full"}}

// titanRows are torchtitan's fields, of a file or of a command.
var titanRows = []row{
	{"model.name", joined("model.name", "model.flavor")}, {"model.flavor", joined("model.name", "model.flavor")},
	{"training.local_batch_size", number("batch")}, {"training.batch_size", number("batch")},
	{"training.seq_len", number("seq")}, {"training.compile", when(Flag{"compile", "true"})},
	{"compile.enable", compiledModel}, {"compile.components", anyValue},
	{"training.mixed_precision_reduce", choice("reduce-dtype", dtypes)},
	{"parallelism.fsdp_reshard_after_forward", found([]string{`never`, "keep-gathered", "true"},
		[]string{`default|always`})},
	{"training.mixed_precision_param", choice("precision", map[string]string{"bfloat16": "bf16-mixed",
		"float32": "fp32"})},
	{"training.dtype", choice("precision", map[string]string{"bfloat16": "bf16", "float32": "bf16-mixed"})},
	{"training.enable_cpu_offload", when(Flag{"offload", "params"})},
	{"optimizer.name", optimizer}, {"optimizer.implementation", implementation}, {"optimizer.fused", fused},
	{"optimizer.early_step_in_backward", when(Flag{"optimizer-in-backward", "true"})},
	{"parallelism.data_parallel_shard_degree", atLeastNone("")},
	{"parallelism.data_parallel_replicate_degree", aboveOne(Flag{"fsdp", "hybrid"})},
	{"parallelism.enable_async_tensor_parallel", when(Flag{"async-tp", "true"})},
	{"compile.enable_async_tensor_parallel", when(Flag{"async-tp", "true"})},
	{"experimental.enable_async_tensor_parallel", when(Flag{"async-tp", "true"})},
	{"parallelism.tensor_parallel_degree", tensorParallel}, {"parallelism.pipeline_parallel_degree", number("pp")},
	{"parallelism.pipeline_parallel_schedule", schedule}, {"parallelism.context_parallel_degree", number("cp")},
	{"parallelism.expert_parallel_degree", number("ep")}, {"parallelism.pipeline_parallel_microbatch_size", number("")},
	{"activation_checkpoint.mode", titanCheckpointing}, {"activation_checkpoint.selective_ac_option",
		titanCheckpointing},
	{"float8.enable_float8_linear", when(Flag{"float8", "true"})}, {"model.converters", float8},
	{"float8.enable_fsdp_float8_all_gather", only(byTensor, when(Flag{"float8-all-gather", "true"}))},
	{"float8.recipe_name", only(inFloat8, word("float8-recipe"))},
}

var trlAlways = []Flag{{"framework", "trl"}, {"batch", "8"}, {"checkpointing", "full"}, {"precision", "bf16-mixed"}}

// trlRows are fields of TRL's scripts.
var trlRows = append([]row{
	{"trl", anyValue}, {"beta", anyValue}, {"precompute_ref_log_probs", anyValue}, {"max_completion_length", anyValue},
	{"num_generations", anyValue}, {"activation_offloading", when(Flag{"activation-offload", "true"})},
	{"packing", anyValue},
	{"bf16", autocast(found([]string{`^(true|yes|on|1)$`, "precision", "bf16-mixed"}, []string{`.`, "precision",
		"fp32"}))},
}, argumentRows...)

// compileMode is torch.compile's: two have CUDA graphs. Naming one turns it on.
var compileMode = found([]string{`^(reduce-overhead|max-autotune)$`, "cuda-graphs", "true"},
	[]string{`^(default|max-autotune-no-cudagraphs)$`, "compile", "true"})

// trainerRows are fields of Transformers' TrainingArguments.
var trainerRows = append([]row{
	{"model_name_or_path", word(modelFlag)}, {"per_device_train_batch_size", number("batch")},
	{"gradient_accumulation_steps", number("accumulate")}, {"optim", optimizer}, {"lora_dropout", adapted(share("lora-dropout"))},
	{"use_dora", adapted(when(Flag{"dora", "true"}))}, {"torch_compile", when(Flag{"compile", "true"})},
	{"torch_compile_mode", compileMode},
	{"label_smoothing_factor", found([]string{`[1-9]`, "loss", "smoothed"}, []string{`^[0.]+$`})},
	{"deepspeed", stageInName}, {"fsdp", shardings}, {"fsdp_config.version", number("fsdp-version")},
	{"world_size", number("gpus")}, {"num_processes", number("gpus")}, {"num_gpus", number("gpus")},
	{"nproc_per_node", number("")},
	{"nnodes", number("")}, {"zero_stage", atLeastNone("zero")}, {"use_deepspeed", anyValue}, {"deepspeed_config", stageInName},
	{"deepspeed_config_file", stageInName}, {"offload_optimizer_device", offloaded("optimizer")},
	{"offload_param_device", offloaded("params")},
}, deepspeedRows("deepspeed.")...)

// argumentRows are fields of TRL's scripts beside, and of commands that start them.
var argumentRows = append([]row{
	{"config_file", anyValue},
	{"bf16", autocast(when(Flag{"precision", "bf16-mixed"}))}, {"fp16", autocast(when(Flag{"precision", "fp16-mixed"}))},
	{"mixed_precision", autocast(choice("precision", map[string]string{"bf16": "bf16-mixed", "fp16": "fp16-mixed",
		"fp8": "fp8-mixed"}))},
	{"torch_dtype", unpacked(loaded)}, {"dtype", unpacked(loaded)},
	{"gradient_checkpointing", unsloth},
	{"block_size", number("seq")}, {"max_seq_length", number("seq")}, {"max_length", number("seq")},
	{"model_max_length", number("seq")},
	{"attn_implementation", attention}, {"use_liger_kernel", liger}, {"use_liger", liger},
	{"use_flash_attention_2", when(Flag{"attention", "flash"})}, {"use_flash_attn", when(Flag{"attention", "flash"})},
	{"load_in_4bit", when(Flag{"precision", "int4"})}, {"load_in_8bit", when(Flag{"precision", "int8"})},
	{"lora_r", adapted(number("lora"))}, {"lora_target_modules", adapted(moduleList)},
	{"lora_modules_to_save", adapted(word("modules-to-save"))},
	{"use_rslora", adapted(when(Flag{"adapter", "rslora"}))},
	{"use_bnb_nested_quant", unless(Flag{"plain-scales", "true"})}, {"use_peft", anyValue}, {"max_prompt_length", number("")},
}, trainerRows...)

// deepspeedRows are the fields of a DeepSpeed configuration, below a name.
func deepspeedRows(at string) []row {
	rows := []row{
		{"zero_optimization.stage", atLeastNone("zero")},
		{"zero_optimization.offload_optimizer.device", offloaded("optimizer")},
		{"zero_optimization.offload_param.device", offloaded("params")},
		{"zero_optimization.reduce_bucket_size", bucket("reduce-bucket")},
		{"zero_optimization.allgather_bucket_size", number("")}, // gathered in place
		{"zero_optimization.stage3_prefetch_bucket_size", prefetch}, {"tensor_parallel.autotp_size", number("tp")},
		{"zero_optimization.stage3_max_live_parameters", bucket("live-parameters")},
		{"zero_optimization.overlap_comm", when(Flag{"overlap-comm", "true"})},
		{"zero_optimization.contiguous_gradients", anyValue},
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
	float8 = found([]string{`float8`, "float8", "true"}, []string{`(^|[^a-z])mx([^a-z]|$)`, "mxfp8", "true"})
	served = found([]string{`^(bf16|bfloat16)$`, "precision", "bf16"}, []string{`^(fp16|float16|half)$`, "precision", "fp16"},
		[]string{`^(fp32|float|float32)$`, "precision", "fp32"}, []string{`^auto$`})
)

// inFloat8 says whether torchtitan converts layers to float8, and byTensor with one scale for a tensor.
func inFloat8(f *fields) bool {
	return strings.Contains(f.values["model.converters"], "float8") || f.yes("float8.enable_float8_linear")
}

func byTensor(f *fields) bool {
	return inFloat8(f) && !strings.HasPrefix(f.values["float8.recipe_name"], "rowwise")
}

// unpacked is a meaning that a type has where weights aren't packed. Elsewhere the type is
// what is computed in alone.
func unpacked(m meaning) meaning {
	return func(v string, f *fields) ([]Flag, bool) {
		if f.yes("load_in_4bit") || f.yes("load_in_8bit") || isSet(f.values["quantization_bit"]) || f.yes("pure_bf16") ||
			strings.Contains(f.values["model._component_"], ".qlora_") || f.yes("model.quantize_base") {
			return nil, true
		}
		return m(v, f)
	}
}

// loaded is the type that Transformers loads weights in: the checkpoint's with auto, which has 16 bits nearly always.
func loaded(v string, f *fields) ([]Flag, bool) {
	if v == "auto" {
		v = "bf16"
	}
	flags, ok := choice("precision", dtypes)(v, f)
	if ok && flags[0].Value == "fp32" && (f.yes("bf16") || f.yes("fp16")) {
		return nil, true // autocast says more
	}
	return flags, ok
}

// autocast is a meaning that mixed precision has where weights are loaded in 32 bits.
func autocast(m meaning) meaning {
	return unpacked(func(v string, f *fields) ([]Flag, bool) {
		for _, name := range []string{"torch_dtype", "dtype"} {
			if strings.HasSuffix(f.values[name], "16") || f.values[name] == "auto" {
				return nil, true
			}
		}
		return m(v, f)
	})
}

// withAdapters says whether a file with fields of LoRA trains by it.
func withAdapters(f *fields) bool {
	return f.yes("use_peft") || slices.ContainsFunc([]string{"finetuning_type", "adapter", "train_type", "tuner_type"},
		func(name string) bool { return strings.Contains(f.values[name], "lora") })
}

// adapted is a meaning that a field has where adapters are trained. Elsewhere the field says nothing.
func adapted(m meaning) meaning {
	return func(v string, f *fields) ([]Flag, bool) {
		if !withAdapters(f) {
			return nil, true
		}
		return m(v, f)
	}
}

// none is of a field that takes memory which isn't counted.
func none(string, *fields) ([]Flag, bool) { return nil, false }
