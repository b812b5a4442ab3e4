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
		rows: rowsOf("torchtune-recipe",
			found([]string{`chunk|linear`, "loss", "chunked"}, []string{`crossentropy`, "loss", "default"},
				[]string{`rlhf\.loss\.dpo`}),
			unpacked(choice("precision", dtypes)),
			only(func(f *fields) bool { return f.values["ac_mode"] == "selective" }, word("checkpointing")),
			found([]string{`tok_embeddings|output`, "fsdp-ends", "apart"}),
			only(func(f *fields) bool { return f.yes("enable_fp8_training") }, word("float8-recipe"))),
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
		always: []Flag{{"framework", "axolotl"}, {"trainer", "true"}, trainersOptimizer}, settle: axolotlShards,
		rows: rowsOf("axolotl-configuration",
			found([]string{`lora`}),
			unpacked(found([]string{`^(true|yes|full|auto)$`, "precision", "bf16"}, []string{`false`})),
			unpacked(choice("precision", dtypes)),
			only(func(f *fields) bool { return f.yes("fp8") }, when(Flag{"float8-all-gather", "true"})),
			aboveOne(Flag{"fsdp", "hybrid"}),
			found([]string{`^(true|yes|legacy|disk|hidden_states)$`, "activation-offload", "true"}, []string{`^(false|no)$`})),
	},
	{
		name: "PEFT adapter configuration", all: []string{"peft_type"}, any: []string{"base_model_name_or_path", "task_type",
			"target_modules"},
		settle: peftDefaults,
		rows: rowsOf("PEFT-adapter-configuration",
			only(isPEFT("lora"), number("lora")),
			only(isPEFT("lora", "ia3"), moduleList)),
	},
	{
		name: "LLaMA-Factory configuration", all: []string{"model_name_or_path", "finetuning_type"},
		always: []Flag{{"framework", "transformers"}, {"trainer", "true"}, {"checkpointing", "full"}, trainersOptimizer},
		settle: factoryDefaults,
		rows: append(rowsOf("LLaMA-Factory-configuration",
			found([]string{`^(lora|full|freeze)$`}),
			found([]string{`^(sft|pt)$`}, []string{ofPairs}),
			choice("precision", map[string]string{"4": "int4", "8": "int8"}),
			unpacked(factoryPrecision("bf16")),
			unpacked(factoryPrecision("fp16"))), trainerRows...),
	},
	{
		name: "Megatron-SWIFT arguments", all: []string{"micro_batch_size"}, any: []string{"model", "mcore_model", "load"},
		beside: []string{"recompute_granularity", "tensor_model_parallel_size", "expert_model_parallel_size", "finetune"},
		always: []Flag{{"framework", "megatron"}, {"precision", "bf16"}, {"optimizer", "adamw-fused"}}, settle: megatronSwift,
		rows: rowsOf("Megatron-SWIFT-arguments",
			found([]string{`^(lora|full)$`}),
			found([]string{`^(lora|full)$`})),
	},
	{
		name: "ms-swift arguments", any: []string{"train_type", "tuner_type"},
		always: []Flag{{"framework", "transformers"}, {"trainer", "true"}, {"checkpointing", "full"}, {"precision", "bf16"}},
		settle: swiftDefaults,
		rows: append(rowsOf("ms-swift-arguments",
			found([]string{`^(lora|full)$`}),
			found([]string{`^(lora|full)$`}),
			choice("precision", map[string]string{"4": "int4", "8": "int8"})), argumentRows...),
	},
	{
		name: "diffusers script", all: []string{"pretrained_model_name_or_path", "train_batch_size"},
		always: []Flag{{"optimizer", "adamw"}}, settle: diffusersDefaults,
		rows: rowsOf("diffusers-script",
			choice("precision", map[string]string{"fp16": "fp16-mixed", "bf16": "bf16-mixed", "no": "fp32"})),
	},
	{
		name: "Unsloth script", all: []string{"unsloth"},
		always: []Flag{{"framework", "unsloth"}, {"trainer", "true"}, {"batch", "8"}, {"seq", "2048"}, {"loss", "fused"},
			{"optimizer", "adamw-8bit"}},
		settle: unslothDefaults, rows: append(rowsOf("Unsloth-script"), trlRows...),
	},
	{
		name: "TRL arguments", any: []string{"model_name_or_path", "per_device_train_batch_size"}, beside: trlFields,
		always: trlAlways, settle: trlTrainers, rows: trlRows,
	},
	{
		name: "TrainingArguments", all: []string{"per_device_train_batch_size"},
		always: []Flag{{"framework", "transformers"}, {"trainer", "true"}, trainersOptimizer}, settle: argumentDefaults,
		rows: argumentRows,
	},
	{
		name: "TRL arguments", all: []string{"model_name_or_path", "learning_rate"}, any: []string{"dataset_name", "datasets"},
		always: trlAlways, settle: trlTrainers, rows: trlRows,
	},
	{
		name: "TRL command", all: []string{"trl", "config"}, settle: trlCommand, rows: trlRows,
	},
	{
		name: "litgpt configuration", all: []string{"train.micro_batch_size"}, any: []string{"checkpoint_dir", "model_name",
			"model.name", "tokenizer_dir", "out_dir"},
		always: []Flag{{"framework", "litgpt"}, {"precision", "bf16-mixed"}, {"lora-dtype", "model"}},
		settle: litgptRanks,
		rows: rowsOf("litgpt-configuration",
			found([]string{`^bf16-true$`, "precision", "bf16"}, []string{`^16-true$`, "precision", "fp16"},
				[]string{`^bf16-mixed$`, "precision", "bf16-mixed"}, []string{`^16-mixed$`, "precision", "fp16-mixed"},
				[]string{`^32`, "precision", "fp32"}),
			found([]string{`4-dq$`, "precision", "int4"}, []string{`(nf4|fp4)$`, "precision", "int4", "plain-scales", "true"},
				[]string{`int8`, "precision", "int8"})),
	},
	{
		name: "accelerate configuration", computes: true, all: []string{"distributed_type"}, any: []string{"num_processes",
			"compute_environment"},
		rows: rowsOf("accelerate-configuration",
			choice("precision", map[string]string{"bf16": "bf16-mixed", "fp16": "fp16-mixed", "fp8": "fp8-mixed", "no": "fp32"}),
			found([]string{`^fsdp$`, "fsdp", "full"}, []string{`deepspeed|multi_gpu|^no$`}),
			found([]string{`inductor`, "compile", "true"}, []string{`^no$`})),
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
		rows: rowsOf("Megatron-arguments",
			when(Flag{shapeFlag + "tie_word_embeddings", "false"})),
	},
	{
		name: "NeMo configuration", all: []string{"model.micro_batch_size", "model.hidden_size"}, any: []string{"trainer",
			"model.tensor_model_parallel_size"},
		always: []Flag{{"framework", "nemo"}, {"optimizer", "adamw-fused"}, {"attention", "flash"}},
		settle: nemoModel,
		rows: rowsOf("NeMo-configuration",
			found([]string{`bf16`, "precision", "bf16", "master-weights", "true", "gradient-dtype", "fp32"},
				[]string{`^(fp)?16`, "precision", "fp16", "master-weights", "true"}, []string{`32`, "precision", "fp32"}),
			found([]string{`distributed`, "optimizer", "adamw-fused", "zero", "1"}, []string{`adam`, "optimizer", "adamw-fused"}),
			when(Flag{shapeFlag + "tie_word_embeddings", "true"})),
	},
	{
		name: "NeMo AutoModel configuration", all: []string{"model.pretrained_model_name_or_path",
			"step_scheduler.local_batch_size"},
		always: []Flag{{"framework", "automodel"}, {"precision", "bf16"}, {"liger", "true"}, {"fsdp", "full"},
			{"lora-dtype", "model"}},
		settle: autoModelSteps,
		rows: rowsOf("NeMo-AutoModel-configuration",
			choice("precision", map[string]string{"bf16": "bf16", "bfloat16": "bf16", "torch.bfloat16": "bf16",
				"fp32": "bf16-mixed", "float32": "bf16-mixed", "torch.float32": "bf16-mixed", "auto": "bf16"}),
			choice("precision", map[string]string{"bfloat16": "bf16", "float32": "bf16-mixed", "auto": "bf16"}),
			autoModelShards, autoModelShards,
			found([]string{`^(true|yes|full)$`, "checkpointing", "full"}, []string{`^selective$`, "checkpointing", "op"},
				[]string{`^(false|no)$`}),
			aboveOne(Flag{"fsdp", "hybrid"}),
			found([]string{`linear_ce|fusedlinear`, "loss", "fused"}, []string{`chunked`, "loss", "chunked"},
				[]string{`masked_ce|crossentropy`, "loss", "default"})),
	},
	{
		name: "vLLM arguments", all: []string{"model"}, any: []string{"gpu-memory-utilization", "max-num-seqs",
			"max-model-len", "vllm"},
		always: []Flag{{"inference", "true"}, {"engine", "vllm"}}, settle: servingByPieces,
		rows: rowsOf("vLLM-arguments"),
	},
	{
		name: "SGLang arguments", any: []string{"model-path", "model"}, beside: sglangFields,
		always: []Flag{{"inference", "true"}, {"engine", "sglang"}},
		settle: servingByPieces,
		rows:   rowsOf("SGLang-arguments"),
	},
}

var titanAlways = []Flag{{"framework", "torchtitan"}, {"precision", "bf16-mixed"}, {"optimizer", "adamw-fused"},
	{"loss", "default"}, {"fsdp", "full"}, {"allocator", "expandable"}} // the last by its run_train.sh

// titanRows are torchtitan's fields, of a file or of a command.
var titanRows = rowsOf("titanRows",
	joined("model.name", "model.flavor"),
	joined("model.name", "model.flavor"),
	choice("reduce-dtype", dtypes),
	found([]string{`never`, "keep-gathered", "true"}, []string{`default|always`}),
	choice("precision", map[string]string{"bfloat16": "bf16-mixed", "float32": "fp32"}),
	choice("precision", map[string]string{"bfloat16": "bf16", "float32": "bf16-mixed"}),
	aboveOne(Flag{"fsdp", "hybrid"}),
	only(byTensor, when(Flag{"float8-all-gather", "true"})),
	only(inFloat8, word("float8-recipe")))

var trlAlways = []Flag{{"framework", "trl"}, {"batch", "8"}, {"checkpointing", "full"}, {"precision", "bf16-mixed"},
	trainersOptimizer}

// trainersOptimizer is what Transformers' Trainer takes from PyTorch 2.8 on (training_args.py), and axolotl always.
var trainersOptimizer = Flag{"optimizer", "adamw-fused"}

// trlRows are fields of TRL's scripts.
var trlRows = append(rowsOf("trlRows",
	autocast(found([]string{`^(true|yes|on|1)$`, "precision", "bf16-mixed"}, []string{`.`, "precision",
		"fp32"}))), argumentRows...)

// compileMode is torch.compile's: two have CUDA graphs. Naming one turns it on.
var compileMode = found([]string{`^(reduce-overhead|max-autotune)$`, "cuda-graphs", "true"},
	[]string{`^(default|max-autotune-no-cudagraphs)$`, "compile", "true"})

// trainerRows are fields of Transformers' TrainingArguments.
var trainerRows = append(rowsOf("trainerRows",
	found([]string{`[1-9]`, "loss", "smoothed"}, []string{`^[0.]+$`})), deepspeedRows("deepspeed.")...)

// argumentRows are fields of TRL's scripts beside, and of commands that start them.
var argumentRows = append(rowsOf("argumentRows",
	autocast(choice("precision", map[string]string{"bf16": "bf16-mixed", "fp16": "fp16-mixed",
		"fp8": "fp8-mixed"}))), trainerRows...)

// deepspeedRows are the fields of a DeepSpeed configuration, below a name.
func deepspeedRows(at string) []row {
	rows := rowsOf("deepspeedRows")
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
