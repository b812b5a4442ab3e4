package recipe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/vramscope/vramscope/budget"
)

// SettingFlags are the budget's flags, which fields of recipes mean, over a setting.
func SettingFlags(fl *pflag.FlagSet, s *budget.Setting) {
	fl.Int64Var(&s.Batch, "batch", 1, "sequences per GPU and micro-batch")
	fl.Int64Var(&s.Sequence, "seq", 1024, "tokens per sequence (the encoder's, for an encoder-decoder)")
	fl.Int64Var(&s.DecoderSeq, "decoder-seq", 0,
		"tokens per target sequence (default 128 or --seq; of whisper --seq, as far as it has positions)")
	fl.StringVar(&s.Precision, "precision", "bf16",
		"fp32 bf16 fp16 bf16-mixed fp16-mixed fp8-mixed int8 int4; wins over quantization_config")
	fl.StringVar(&s.Optimizer, "optimizer", "adamw", strings.Join(budget.Optimizers(), " "))
	fl.StringVar(&s.Checkpointing, "checkpointing", "none", "none selective op full offload, or N: every Nth block")
	fl.StringVar(&s.Attention, "attention", "sdpa", "eager sdpa flash flex")
	fl.BoolVar(&s.Padding, "padding", false, "batches carry a real padding mask")
	fl.StringVar(&s.Loss, "loss", "default", "default logits-only cross-entropy chunked fused; "+
		"shifted: of logits[..., :-1, :].contiguous(); smoothed: by the Trainer's label smoothing")
	fl.Int64Var(&s.Accumulate, "accumulate", 1, "micro-batches per step")
	fl.BoolVar(&s.KeepGradients, "keep-gradients", false, "zero_grad(set_to_none=False)")
	fl.Int64Var(&s.LoRA, "lora", 0, "train LoRA adapters of this `RANK`")
	fl.StringVar(&s.LoRATargets, "lora-targets", "all", "all, qv, or module names with commas")
	fl.StringVar(&s.LoRADtype, "lora-dtype", "fp32", "the adapters' type: model or fp32 (PEFT's default)")
	fl.Float64Var(&s.LoRADropout, "lora-dropout", 0, "dropout in front of the adapters")
	fl.IntVar(&s.Zero, "zero", 0, "ZeRO stage, 0 to 3")
	fl.Int64Var(&s.ReduceBucket, "reduce-bucket", 0,
		"DeepSpeed's reduce_bucket_size, in `elements` (default 500,000,000; -1: auto)")
	fl.Int64Var(&s.LiveParameters, "live-parameters", 0, "DeepSpeed's stage3_max_live_parameters (default 1,000,000,000)")
	fl.Int64Var(&s.PrefetchBucket, "prefetch-bucket", 0,
		"DeepSpeed's stage3_prefetch_bucket_size: -1 when it gathers nothing ahead")
	fl.BoolVar(&s.OverlapComm, "overlap-comm", false, "DeepSpeed's overlap_comm: two buckets by turns")
	fl.StringVar(&s.FSDP, "fsdp", "", "full, or hybrid: shards within a node, replicas over nodes")
	fl.Int64Var(&s.Shards, "fsdp-shards", 0, "ranks that share one copy of the model (default all, with hybrid 8)")
	fl.IntVar(&s.FSDPVersion, "fsdp-version", 2, "1: each unit's parameters are one flat tensor (FullyShardedDataParallel)")
	fl.BoolVar(&s.KeepGathered, "keep-gathered", false,
		"what FSDP gathers stays until backward: SHARD_GRAD_OP, reshard_after_forward=False")
	fl.StringVar(&s.FSDPEnds, "fsdp-ends", "", "apart: embeddings and head are units of their own, torchtune's "+
		"custom_sharded_layers; together (default as torchtune's recipes have it)")
	fl.StringVar(&s.ReduceDtype, "reduce-dtype", "",
		"what FSDP reduces gradients in: fp32 bf16 fp16 (default the wider of weights and compute type)")
	fl.BoolVar(&s.OneUnit, "one-unit", false, "FSDP1: a block and its adapters are one unit, without PEFT's wrap policy")
	fl.BoolVar(&s.HostAhead, "host-ahead", true, "the GPU is behind the host as far as FSDP1 lets it be, as GPUs are")
	fl.BoolVar(&s.FreeGathers, "no-limit-all-gathers", false, "FSDP1's limit_all_gathers=False")
	fl.Int64Var(&s.Copies, "copies", 0,
		"whole copies of the weights beside the model, like an average of them (EMA) or a reference model (DPO)")
	fl.Int64Var(&s.Freeze, "freeze", 0, "embeddings and the first `N` blocks aren't trained")
	fl.Int64Var(&s.GPUs, "gpus", 0, "GPUs altogether (default: what --tp, --pp, --cp and --ep need)")
	fl.Int64Var(&s.TP, "tp", 1, "tensor-parallel ranks")
	fl.Int64Var(&s.PP, "pp", 1, "pipeline stages")
	fl.Int64Var(&s.EP, "ep", 1, "expert-parallel ranks")
	fl.Float64Var(&s.ExpertLoad, "expert-load", 1,
		"with --ep, tokens that the experts of the fullest rank get, as a multiple of an even share")
	fl.Int64Var(&s.CP, "cp", 1, "context-parallel ranks")
	fl.StringVar(&s.Offload, "offload", "none", "none optimizer params")
	fl.BoolVar(&s.MasterWeights, "master-weights", false, "a float32 copy of 16-bit weights, and float32 state")
	fl.StringVar(&s.GradientDtype, "gradient-dtype", "",
		"fp32: gradients of 16-bit weights add up in float32, in a buffer that is always there (Megatron-LM's way)")
	fl.BoolVar(&s.SyncEachBatch, "sync-each-batch", false,
		"Accelerate's: FSDP reduces the gradients of each micro-batch, and none stay whole")
	fl.BoolVar(&s.UseCache, "use-cache", false, "the model fills its KV cache while it trains")
	fl.BoolVar(&s.DropOutputs, "drop-outputs", false, "outputs are dropped before backward")
	fl.BoolVar(&s.Trainer, "trainer", false, "Hugging Face's Trainer: outputs become float32 and go before backward (a loop of "+
		"Accelerate's that keeps them: --drop-outputs=false); FSDP reduces in the compute type, once a step")
	fl.BoolVar(&s.Inference, "inference", false, "serve instead of train")
	fl.Int64Var(&s.Context, "context", 0, "tokens in the decoder's cache while decoding (default --seq, of an encoder-decoder "+
		"--decoder-seq)")
	fl.Int64Var(&s.NewTokens, "new-tokens", 0, "tokens generated on top of the context")
	fl.StringVar(&s.Engine, "engine", "",
		"serve by vllm or sglang: prompts in pieces, and a pool of cache in its share of the GPU; --context is the longest "+
			"request")
	fl.Float64Var(&s.Share, "gpu-share", 0, "of the GPU that --engine takes: gpu_memory_utilization (default 0.92), "+
		"mem_fraction_static (0.88)")
	fl.Int64Var(&s.Tokens, "batch-tokens", 0, "tokens that --engine takes at once: max_num_batched_tokens, chunked_prefill_size")
	fl.Float64Var(&s.Shared, "prefix-share", 0, "of each request, the part that all begin with, which --engine caches once")
	fl.StringVar(&s.Cache, "cache", "dynamic", "dynamic static none")
	fl.StringVar(&s.KV, "kv", "", "the cache's type: fp16 fp8 int8 int4 (default the model's)")
	fl.BoolVar(&s.Compile, "compile", false, "torch.compile on every block; with --framework transformers on the whole model")
	fl.BoolVar(&s.CUDAGraphs, "cuda-graphs", false, "compiled with CUDA graphs: mode reduce-overhead or max-autotune")
	fl.BoolVar(&s.MixerKernels, "mixer-kernels", false, "mamba-ssm's kernels run mamba-2's mixers (default PyTorch's operations)")
	fl.BoolVar(&s.Liger, "liger", false, "Liger's kernels for norms, rotations and gated layers (its loss is --loss fused)")
	fl.BoolVar(&s.OptimizerInBackward, "optimizer-in-backward", false,
		"each parameter's step comes as soon as its gradient is there")
	fl.BoolVar(&s.ActivationOffload, "activation-offload", false, "saved activations lie in host memory until backward")
	fl.BoolVar(&s.Float8, "float8", false, "products in 8 bits (torchao's float8)")
	fl.BoolVar(&s.Float8AllGather, "float8-all-gather", false, "products in 8 bits, and FSDP gathers their weights in 8 bits")
	fl.StringVar(&s.Float8Recipe, "float8-recipe", "", "tensorwise rowwise rowwise_with_gw_hp (default \"tensorwise\")")
	fl.BoolVar(&s.MXFP8, "mxfp8", false, "products in 8 bits with a scale for each 32 elements (torchao's MXFP8)")
	fl.StringVar(&s.Framework, "framework", "",
		strings.Join(budget.Frameworks(), " ")+": its model, loop and usual settings; a version may follow, as in "+
			"torchtitan@2024.12 (default: model and loop as the other flags suggest)")
	fl.BoolVar(&s.DoRA, "dora", false, "adapters with a trained magnitude (DoRA)")
	fl.StringVar(&s.Adapter, "adapter", "", "lora rslora dora lora-fa, with --lora RANK; or ia3 (default \"lora\")")
	fl.StringVar(&s.SaveModules, "modules-to-save", "", "module names with commas: trained in full beside adapters")
	fl.BoolVar(&s.PlainScales, "plain-scales", false, "4-bit weights without nested (double) quantization of their scales")
	fl.BoolVar(&s.PrepareKbit, "prepare-kbit", false,
		"with packed weights, the others are float32: PEFT's prepare_model_for_kbit_training")
	fl.BoolVar(&s.SequenceParallel, "sequence-parallel", false, "what --tp leaves whole is split by tokens")
	fl.BoolVar(&s.AsyncTP, "async-tp", false, "asynchronous tensor parallelism: torchtitan's enable_async_tensor_parallel")
	fl.Int64Var(&s.MicroBatches, "micro-batches", 0, "micro-batches of a pipeline's step (default as many as stages)")
	fl.Int64Var(&s.StagesPerRank, "stages-per-rank", 0,
		"pieces of the model that each rank of an interleaved pipeline has (default 2)")
	fl.StringVar(&s.Schedule, "schedule", "1f1b", "of a pipeline: 1f1b interleaved gpipe zbv")
	fl.StringVar(&s.Torch, "torch", "", "PyTorch's `VERSION` (default the newest known)")
	fl.StringVar(&s.Allocator, "allocator", "native", "native expandable")
}

// namedOnly says which configurations of DeepSpeed and Accelerate a file names that aren't among the others.
func namedOnly(rs []*Recipe) (said []string) {
	for _, other := range []struct{ format, field, end string }{{"DeepSpeed", "deepspeed", ".json"},
		{"accelerate", "config_file", ".yaml"}} {
		if slices.ContainsFunc(rs, func(r *Recipe) bool { return strings.HasPrefix(r.Format, other.format) }) {
			continue
		}
		for _, r := range rs {
			i := slices.IndexFunc(r.Fields, func(x Field) bool {
				return strings.Contains(x.Name, other.field) && strings.HasSuffix(x.Value, other.end)
			})
			if i >= 0 {
				said = append(said, "of "+Clipped(r.Fields[i].Value)+" the name alone is used: with --recipe it is read, too")
			}
		}
	}
	return said
}

// divided takes as many GPUs as a model lies on, where a file's own number can't be divided so.
func divided(s *budget.Setting) []string {
	need := s.TP * s.PP * s.CP
	if need < 1 || s.GPUs%need == 0 {
		return nil
	}
	said := s.GPUs
	s.GPUs = need
	return []string{fmt.Sprintf("the file's %d GPUs cannot be divided by --tp %d x --pp %d x --cp %d: "+
		"counted on %d; give --gpus N", said, s.TP, s.PP, s.CP, need)}
}

// trainersOutputs lets outputs go before backward, as the Trainer does, whose training_step has the
// loss alone, unless the user says otherwise.
func trainersOutputs(fl *pflag.FlagSet, s *budget.Setting) {
	if s.Trainer && !fl.Changed("drop-outputs") {
		s.DropOutputs = true
	}
}

// Apply sets the flags that recipes of one run mean and the user hasn't set, and gives their
// names, and what the files leave open.
func Apply(fl *pflag.FlagSet, rs []*Recipe, s *budget.Setting) (set, open []string, err error) {
	for _, g := range Together(rs) {
		flag := fl.Lookup(g.Name)
		if flag == nil || flag.Changed {
			continue
		}
		if err := flag.Value.Set(g.Value); err != nil {
			return nil, nil, fmt.Errorf("--%s %q: %w", g.Name, g.Value, err)
		}
		flag.Changed = true
		set = append(set, g.Name)
	}
	trainersOutputs(fl, s)
	open = append(open, namedOnly(rs)...)
	if slices.Contains(set, "gpus") {
		open = append(open, divided(s)...)
	}
	if ranks := s.GPUs / max(s.TP*s.PP, 1); ranks < 2 && (slices.Contains(set, "fsdp") || slices.Contains(set,
		"zero") && s.Zero > 0) {
		s.FSDP, s.Zero = "", 0
		if !fl.Changed("gpus") {
			open = append(open, "how many GPUs share the model no file says: counted unsharded; give --gpus N")
		}
	}
	if len(rs) > 0 && !fl.Changed("seq") && !fl.Changed("context") {
		open = append(open, "how long sequences are no file says: give --seq N")
	}
	return set, open, nil
}
