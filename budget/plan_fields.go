package budget

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Field is one of a setting's: a flag, or a key of --set where few need it.
type Field struct {
	Name   string
	Start  any // where nobody says anything
	Help   string
	Seldom bool

	at          func(*Setting) any // a pointer
	words       []string           // that it takes; nil: any
	least, most float64            // where it is a number; both 0: any
	told        told
	typed       func(*Setting) bool // whether a plan's command line has it, nil: where it isn't as at the start
}

// At is the place of the field in a setting: a pointer to a string, a bool, an int, an int64 or a float64.
func (f *Field) At(s *Setting) any { return f.at(s) }

// told says where a budget's document has the field.
type told int

const (
	toldNowhere told = iota
	toldAlways
	toldServing
	toldTraining
	toldSharded  // by FSDP
	toldAdapters // with them
	toldEights   // with float8
	toldIfSaid   // in training, where it isn't as at the start
)

// More than any run has, of tokens and the like and of ranks.
const (
	anyCount  = 1 << 40
	mostRanks = 1 << 20
)

func never(*Setting) bool { return false }

// Fields are all, in the order in which a plan's command line has them.
var Fields = []Field{
	{Name: "precision", Start: "bf16",
		Help:  "fp32 bf16 fp16 bf16-mixed fp16-mixed fp8-mixed int8 int4; wins over quantization_config",
		words: []string{"fp32", "bf16", "fp16", "bf16-mixed", "fp16-mixed", "fp8-mixed", "int8", "int4"}, told: toldAlways,
		at: func(s *Setting) any { return &s.Precision }, typed: always},
	{Name: "batch", Start: int64(1), Help: "sequences per GPU and micro-batch", least: 1, most: anyCount, told: toldAlways,
		at: func(s *Setting) any { return &s.Batch }, typed: always},
	{Name: "seq", Start: int64(1024), Help: "tokens per sequence (the encoder's, for an encoder-decoder)",
		least: 1, most: anyCount,
		told: toldAlways, at: func(s *Setting) any { return &s.Sequence }, typed: always},
	{Name: "gpus", Start: int64(0), Help: "GPUs altogether (default: what --tp, --pp, --cp and --ep need)",
		least: 1, most: anyCount,
		told: toldAlways, at: func(s *Setting) any { return &s.GPUs }, typed: func(s *Setting) bool { return s.GPUs > 1 }},
	{Name: "zero", Start: 0, Help: "ZeRO stage, 0 to 3", most: 3, told: toldTraining,
		at: func(s *Setting) any { return &s.Zero }},
	{Name: "fsdp", Start: "", Help: "full, or hybrid: shards within a node, replicas over nodes",
		words: []string{"", "full", "hybrid"},
		told:  toldTraining, at: func(s *Setting) any { return &s.FSDP }},
	{Name: "tp", Start: int64(1), Help: "tensor-parallel ranks", least: 1, most: mostRanks, told: toldAlways,
		at: func(s *Setting) any { return &s.TP }},
	{Name: "sequence-parallel", Start: false, Help: "what --tp leaves whole is split by tokens", told: toldTraining,
		at: func(s *Setting) any { return &s.SequenceParallel }},
	{Name: "pp", Start: int64(1), Help: "pipeline stages", least: 1, most: mostRanks, told: toldAlways,
		at: func(s *Setting) any { return &s.PP }},
	{Name: "ep", Start: int64(1), Help: "expert-parallel ranks", least: 1, most: mostRanks, told: toldAlways,
		at: func(s *Setting) any { return &s.EP }},
	{Name: "cp", Start: int64(1), Help: "context-parallel ranks", least: 1, most: mostRanks, told: toldAlways,
		at: func(s *Setting) any { return &s.CP }},
	{Name: "optimizer", Start: "adamw", Help: strings.Join(Optimizers(), " "), words: Optimizers(), told: toldTraining,
		at: func(s *Setting) any { return &s.Optimizer }},
	{Name: "checkpointing", Start: "none", Help: "none selective op full offload, or N: every Nth block",
		words: []string{"none", "selective", "op", "full", "offload", "or N for every Nth block"}, told: toldTraining,
		at: func(s *Setting) any { return &s.Checkpointing }},
	{Name: "loss", Start: "default", Help: "default logits-only cross-entropy chunked fused; " +
		"shifted: of logits[..., :-1, :].contiguous(); smoothed: by the Trainer's label smoothing",
		words: []string{"default", "logits-only", "cross-entropy", "chunked", "fused", "shifted", "smoothed"}, told: toldTraining,
		at: func(s *Setting) any { return &s.Loss }},
	{Name: "lora", Start: int64(0), Help: "train LoRA adapters of this `RANK`", most: 1 << 20, told: toldTraining,
		at: func(s *Setting) any { return &s.LoRA }},
	{Name: "adapter", Start: "", Help: "lora rslora dora lora-fa, with --lora RANK; or ia3 (default \"lora\")", Seldom: true,
		words: []string{"lora", "rslora", "dora", "lora-fa", "ia3"}, told: toldAdapters,
		at:    func(s *Setting) any { return &s.Adapter },
		typed: func(s *Setting) bool { return s.adapts() && s.Adapter != "lora" }},
	{Name: "lora-targets", Start: "all", Help: "all, qv, or module names with commas", told: toldAdapters,
		at:    func(s *Setting) any { return &s.LoRATargets },
		typed: func(s *Setting) bool { return s.adapts() && s.LoRATargets != "all" }},
	{Name: "lora-dtype", Start: "fp32", Help: "the adapters' type: model or fp32 (PEFT's default)",
		words: []string{"model", "fp32"},
		told:  toldAdapters, at: func(s *Setting) any { return &s.LoRADtype },
		typed: func(s *Setting) bool { return s.adapts() && s.LoRADtype != "fp32" }},
	{Name: "lora-dropout", Start: 0.0, Help: "dropout in front of the adapters", Seldom: true, most: 0.99999,
		at: func(s *Setting) any { return &s.LoRADropout }},
	{Name: "modules-to-save", Start: "", Help: "module names with commas: trained in full beside adapters", Seldom: true,
		told: toldAdapters, at: func(s *Setting) any { return &s.SaveModules }},
	{Name: "dora", Start: false, Help: "adapters with a trained magnitude (DoRA)", at: func(s *Setting) any { return &s.DoRA },
		typed: never},
	{Name: "accumulate", Start: int64(1), Help: "micro-batches per step", least: 1, most: anyCount, told: toldTraining,
		at: func(s *Setting) any { return &s.Accumulate }},
	{Name: "attention", Start: "sdpa", Help: "eager sdpa flash flex", words: []string{"eager", "sdpa", "flash", "flex"},
		told: toldAlways, at: func(s *Setting) any { return &s.Attention }},
	{Name: "expert-load", Start: 1.0,
		Help:   "with --ep, tokens that the experts of the fullest rank get, as a multiple of an even share",
		Seldom: true, told: toldIfSaid, at: func(s *Setting) any { return &s.ExpertLoad }},
	{Name: "freeze", Start: int64(0), Help: "embeddings and the first `N` blocks aren't trained", Seldom: true, told: toldIfSaid,
		at: func(s *Setting) any { return &s.Freeze }},
	{Name: "copies", Start: int64(0), Help: "whole copies of the weights beside the model, like an average of them (EMA)",
		Seldom: true, most: 64, told: toldIfSaid, at: func(s *Setting) any { return &s.Copies }},
	{Name: "reference", Start: int64(0), Help: "models beside it, as large, that each step runs forward alone: DPO's reference",
		Seldom: true, most: 8, told: toldIfSaid, at: func(s *Setting) any { return &s.References }},
	{Name: "offload", Start: "none", Help: "none optimizer params", words: []string{"none", "optimizer", "params"},
		told: toldAlways,
		at:   func(s *Setting) any { return &s.Offload }},
	{Name: "gradient-dtype", Start: "", Help: "fp32: gradients of 16-bit weights add up in float32, in a buffer that is always " +
		"there (Megatron-LM's way)", Seldom: true, words: []string{"", "fp32"}, told: toldIfSaid,
		at:    func(s *Setting) any { return &s.GradientDtype },
		typed: func(s *Setting) bool { return s.GradientDtype != "" && s.FSDP == "" }},
	{Name: "compile", Start: false, Help: "torch.compile on every block; with --framework transformers on the whole model",
		told: toldTraining, at: func(s *Setting) any { return &s.Compile },
		typed: func(s *Setting) bool { return s.Compile && !s.CUDAGraphs }},
	{Name: "cuda-graphs", Start: false, Help: "compiled with CUDA graphs: mode reduce-overhead or max-autotune", Seldom: true,
		told: toldIfSaid, at: func(s *Setting) any { return &s.CUDAGraphs }},
	{Name: "padding", Start: false, Help: "batches carry a real padding mask", told: toldAlways,
		at: func(s *Setting) any { return &s.Padding }},
	{Name: "plain-scales", Start: false, Help: "4-bit weights without nested (double) quantization of their scales", Seldom: true,
		at: func(s *Setting) any { return &s.PlainScales }},
	{Name: "prepare-kbit", Start: false,
		Help:   "with packed weights, the others are float32: PEFT's prepare_model_for_kbit_training",
		Seldom: true, told: toldIfSaid, at: func(s *Setting) any { return &s.PrepareKbit }},
	{Name: "trainer", Start: false, Help: "Hugging Face's Trainer: outputs become float32 and go before backward (a loop of " +
		"Accelerate's that keeps them: --drop-outputs=false); FSDP reduces in the compute type, once a step", Seldom: true,
		at: func(s *Setting) any { return &s.Trainer }},
	{Name: "drop-outputs", Start: false, Help: "outputs are dropped before backward", told: toldTraining,
		at: func(s *Setting) any { return &s.DropOutputs }, typed: never},
	{Name: "master-weights", Start: false, Help: "a float32 copy of 16-bit weights, and float32 state", told: toldTraining,
		at: func(s *Setting) any { return &s.MasterWeights }},
	{Name: "sync-each-batch", Start: false,
		Help:   "Accelerate's: FSDP reduces the gradients of each micro-batch, and none stay whole",
		Seldom: true, told: toldIfSaid, at: func(s *Setting) any { return &s.SyncEachBatch }},
	{Name: "keep-gradients", Start: false, Help: "zero_grad(set_to_none=False)", told: toldTraining,
		at: func(s *Setting) any { return &s.KeepGradients }},
	{Name: "float8", Start: false, Help: "products in 8 bits (torchao's float8)", told: toldTraining,
		at: func(s *Setting) any { return &s.Float8 }},
	{Name: "float8-all-gather", Start: false, Help: "products in 8 bits, and FSDP gathers their weights in 8 bits", Seldom: true,
		told: toldEights, at: func(s *Setting) any { return &s.Float8AllGather }},
	{Name: "mxfp8", Start: false, Help: "products in 8 bits with a scale for each 32 elements (torchao's MXFP8)", Seldom: true,
		told: toldIfSaid, at: func(s *Setting) any { return &s.MXFP8 }},
	{Name: "async-tp", Start: false,
		Help: "asynchronous tensor parallelism: torchtitan's enable_async_tensor_parallel", Seldom: true,
		told: toldIfSaid, at: func(s *Setting) any { return &s.AsyncTP }},
	{Name: "float8-recipe", Start: "", Help: "tensorwise rowwise rowwise_with_gw_hp (default \"tensorwise\")", Seldom: true,
		words: []string{"", "tensorwise", "rowwise", wideGradient}, told: toldEights,
		at:    func(s *Setting) any { return &s.Float8Recipe },
		typed: func(s *Setting) bool { return s.Float8 && s.byRows() }},
	{Name: "activation-offload", Start: false, Help: "saved activations lie in host memory until backward", told: toldTraining,
		at: func(s *Setting) any { return &s.ActivationOffload }},
	{Name: "optimizer-in-backward", Start: false, Help: "each parameter's step comes as soon as its gradient is there",
		told: toldTraining, at: func(s *Setting) any { return &s.OptimizerInBackward }},
	{Name: "framework", Start: "",
		Help: strings.Join(Frameworks(), " ") + ": its model, loop and usual settings; a version may " +
			"follow, as in torchtitan@2024.12 (default: model and loop as the other flags suggest)", words: Frameworks(),
		told: toldTraining, at: func(s *Setting) any { return &s.Framework }, typed: (*Setting).namesFramework},

	{Name: "decoder-seq", Start: int64(0),
		Help: "tokens per target sequence (default 128 or --seq; of whisper --seq, as far as it " +
			"has positions)", least: 1, most: anyCount, told: toldTraining,
		at: func(s *Setting) any { return &s.DecoderSeq }, typed: never},
	{Name: "use-cache", Start: false, Help: "the model fills its KV cache while it trains", told: toldTraining,
		at: func(s *Setting) any { return &s.UseCache }},
	{Name: "liger", Start: false, Help: "Liger's kernels for norms, rotations and gated layers (its loss is --loss fused)",
		Seldom: true, told: toldIfSaid, at: func(s *Setting) any { return &s.Liger }},
	{Name: "mixer-kernels", Start: false, Help: "mamba-ssm's kernels run mamba-2's mixers (default PyTorch's operations)",
		Seldom: true, told: toldIfSaid, at: func(s *Setting) any { return &s.MixerKernels }},
	{Name: "fsdp-version", Start: 2,
		Help: "1: each unit's parameters are one flat tensor (FullyShardedDataParallel)", Seldom: true,
		most: 2, at: func(s *Setting) any { return &s.FSDPVersion }},
	{Name: "fsdp-shards", Start: int64(0),
		Help: "ranks that share one copy of the model (default all, with hybrid 8)", Seldom: true,
		told: toldSharded, at: func(s *Setting) any { return &s.Shards }},
	{Name: "keep-gathered", Start: false,
		Help:   "what FSDP gathers stays until backward: SHARD_GRAD_OP, reshard_after_forward=False",
		Seldom: true, told: toldSharded, at: func(s *Setting) any { return &s.KeepGathered }},
	{Name: "reduce-dtype", Start: "", Help: "what FSDP reduces gradients in: fp32 bf16 fp16 (default the wider of weights and " +
		"compute type)", Seldom: true, words: []string{"", "fp32", "bf16", "fp16"}, told: toldSharded,
		at: func(s *Setting) any { return &s.ReduceDtype }},
	{Name: "fsdp-ends", Start: "",
		Help: "apart: embeddings and head are units of their own, torchtune's custom_sharded_layers; " +
			"together (default as torchtune's recipes have it)", Seldom: true, words: []string{"", "apart", "together"},
		told: toldIfSaid,
		at:   func(s *Setting) any { return &s.FSDPEnds }},
	{Name: "one-unit", Start: false,
		Help: "FSDP1: a block and its adapters are one unit, without PEFT's wrap policy", Seldom: true,
		at: func(s *Setting) any { return &s.OneUnit }},
	{Name: "host-ahead", Start: true, Help: "the GPU is behind the host as far as FSDP1 lets it be, as GPUs are", Seldom: true,
		at:    func(s *Setting) any { return &s.HostAhead },
		typed: func(s *Setting) bool { return !s.HostAhead && s.FSDPVersion == 1 }},
	{Name: "no-limit-all-gathers", Start: false, Help: "FSDP1's limit_all_gathers=False", Seldom: true,
		at: func(s *Setting) any { return &s.FreeGathers }},
	{Name: "reduce-bucket", Start: int64(0),
		Help:   "DeepSpeed's reduce_bucket_size, in `elements` (default 500,000,000; -1: auto)",
		Seldom: true, least: -1, most: anyCount, at: func(s *Setting) any { return &s.ReduceBucket }},
	{Name: "live-parameters", Start: int64(0),
		Help: "DeepSpeed's stage3_max_live_parameters (default 1,000,000,000)", Seldom: true,
		most: 1 << 50, at: func(s *Setting) any { return &s.LiveParameters }},
	{Name: "prefetch-bucket", Start: int64(0), Help: "DeepSpeed's stage3_prefetch_bucket_size: -1 when it gathers nothing ahead",
		Seldom: true, at: func(s *Setting) any { return &s.PrefetchBucket }},
	{Name: "overlap-comm", Start: false, Help: "DeepSpeed's overlap_comm: two buckets by turns", Seldom: true,
		at: func(s *Setting) any { return &s.OverlapComm }},
	{Name: "schedule", Start: "1f1b", Help: "of a pipeline: 1f1b interleaved gpipe zbv",
		words: []string{"1f1b", "interleaved", "gpipe", "zbv"}, told: toldTraining,
		at: func(s *Setting) any { return &s.Schedule }},
	{Name: "micro-batches", Start: int64(0),
		Help: "micro-batches of a pipeline's step (default as many as stages)", most: 1 << 20,
		told: toldTraining, at: func(s *Setting) any { return &s.MicroBatches }},
	{Name: "stages-per-rank", Start: int64(0),
		Help:   "pieces of the model that each rank of an interleaved pipeline has (default 2)",
		Seldom: true, most: 1 << 20, at: func(s *Setting) any { return &s.StagesPerRank }},

	{Name: "inference", Start: false, Help: "serve instead of train", told: toldAlways,
		at: func(s *Setting) any { return &s.Inference }},
	{Name: "context", Start: int64(0),
		Help: "tokens in the decoder's cache while decoding (default --seq, of an encoder-decoder " +
			"--decoder-seq)", least: 1, most: anyCount, told: toldServing,
		at: func(s *Setting) any { return &s.Context }, typed: never},
	{Name: "new-tokens", Start: int64(0), Help: "tokens generated on top of the context", most: anyCount, told: toldServing,
		at: func(s *Setting) any { return &s.NewTokens }},
	{Name: "engine", Start: "",
		Help: "serve by vllm or sglang: prompts in pieces, and a pool of cache in its share of the GPU; " +
			"--context is the longest request", words: []string{"", "vllm", "sglang"},
		at: func(s *Setting) any { return &s.Engine }},
	{Name: "gpu-share", Start: 0.0, Help: "of the GPU that --engine takes: gpu_memory_utilization (default 0.92), " +
		"mem_fraction_static (0.88)", Seldom: true, most: 1, at: func(s *Setting) any { return &s.Share }},
	{Name: "batch-tokens", Start: int64(0),
		Help:   "tokens that --engine takes at once: max_num_batched_tokens, chunked_prefill_size",
		Seldom: true, most: anyCount, at: func(s *Setting) any { return &s.Tokens }},
	{Name: "prefix-share", Start: 0.0, Help: "of each request, the part that all begin with, which --engine caches once", most: 1,
		at: func(s *Setting) any { return &s.Shared }},
	{Name: "cache", Start: "dynamic", Help: "dynamic static none", words: []string{"dynamic", "static", "none"},
		told: toldServing,
		at:   func(s *Setting) any { return &s.Cache }},
	{Name: "kv", Start: "", Help: "the cache's type: fp16 fp8 int8 int4 (default the model's)",
		words: []string{"", "fp32", "bf16", "fp16", "fp8", "int8", "int4"},
		told:  toldServing, at: func(s *Setting) any { return &s.KV }},
	{Name: "torch", Start: "", Help: "PyTorch's `VERSION` (default the newest known)", told: toldAlways,
		at: func(s *Setting) any { return &s.Torch }},
	{Name: "allocator", Start: "native", Help: "native expandable", words: []string{"native", "expandable"}, told: toldAlways,
		at: func(s *Setting) any { return &s.Allocator }},
}

// is the field's value in a setting.
func (f *Field) is(s *Setting) any {
	switch p := f.at(s).(type) {
	case *string:
		return *p
	case *bool:
		return *p
	case *int:
		return *p
	case *int64:
		return *p
	case *float64:
		return *p
	}
	return nil
}

// Said reports whether a setting has the field otherwise than at the start.
func (f *Field) Said(s *Setting) bool {
	switch f.is(s) {
	case f.Start, "", 0, int64(0), 0.0:
		return false
	}
	return true
}

// key is the field's name in a document.
func (f *Field) key() string {
	switch f.Name {
	case "seq":
		return "sequence"
	case "decoder-seq":
		return "decoder_sequence"
	}
	return strings.ReplaceAll(f.Name, "-", "_")
}

// check refuses words and numbers that the field doesn't take.
func (f *Field) check(s *Setting) error {
	var n float64
	switch v := f.is(s).(type) {
	case string:
		if f.words != nil && !slices.Contains(f.words, v) {
			return fmt.Errorf("--%s %q: one of %s", f.Name, short(v), strings.TrimSpace(strings.Join(f.words, " ")))
		}
	case int:
		n = float64(v)
	case int64:
		n = float64(v)
	case float64:
		n = v
	}
	switch {
	case f.least == 0 && f.most == 0:
	case !(n >= f.least):
		return fmt.Errorf("--%s %v: at least %v", f.Name, f.is(s), f.least)
	case n > f.most:
		return fmt.Errorf("--%s %v: at most %s", f.Name, f.is(s), strconv.FormatFloat(f.most, 'f', -1, 64))
	}
	return nil
}

// tells says whether a document of the setting has the field.
func (s *Setting) tells(f *Field) bool {
	training := !s.Inference
	return map[told]bool{toldAlways: true, toldServing: s.Inference, toldTraining: training,
		toldSharded:  training && s.FSDP != "",
		toldAdapters: training && s.adapts(), toldEights: training && s.Float8, toldIfSaid: training && f.Said(s)}[f.told]
}

// words are a setting's fields under the names of the flags.
func (s Setting) words() map[string]any {
	m := map[string]any{"gpu": s.GPU}
	for i := range Fields {
		if f := &Fields[i]; s.tells(f) {
			m[f.key()] = f.is(&s)
		}
	}
	switch {
	case s.Inference:
		if e, ok := s.engine(); ok {
			m["engine"], m["gpu_share"], m["batch_tokens"], m["prefix_share"] = s.Engine, e.share, e.tokens, s.Shared
		}
		m["last_logit"] = s.LastLogit
		m["optimizer"], m["checkpointing"], m["loss"], m["zero"] = nil, nil, nil, nil
	case s.FSDP != "":
		m["fsdp_version"] = cmp.Or(s.FSDPVersion, 2)
	}
	if !s.Inference && s.adapts() {
		m["dora"] = s.Adapter == "dora"
	}
	return m
}

// flags are a plan's, as the command takes them.
func (s Setting) flags() string {
	var words []string
	for i := range Fields {
		f := &Fields[i]
		if typed := f.typed; typed != nil && !typed(&s) || typed == nil && !f.Said(&s) {
			continue
		}
		switch v := f.is(&s); v {
		case true:
			words = append(words, "--"+f.Name)
		case false:
			words = append(words, "--"+f.Name+"=false")
		default:
			words = append(words, fmt.Sprintf("--%s %v", f.Name, v))
		}
	}
	return strings.Join(words, " ")
}
