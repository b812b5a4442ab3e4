package budget

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/budget/network"
	"github.com/vramscope/vramscope/budget/optimizers"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// workspace is a plain product's.
func (p *setup) workspace() int64 {
	if d := p.Device(); d.LargeWorkspaces() {
		return 32 * mib
	}
	return 8519680
}

// torchBefore says whether the setting's PyTorch is older than a version, 2.minor.
func (p *setup) torchBefore(minor int) bool {
	if p.Torch == "" {
		return false
	}
	var a, b int
	if n, _ := fmt.Sscanf(strings.TrimPrefix(p.Torch, "v"), "%d.%d", &a, &b); n < 1 {
		return false
	}
	return a < 2 || a == 2 && b < minor
}

// Reserved over allocated: medians of measured runs.
const (
	nativeReserve     = 1.066
	expandableReserve = 1.0055
)

// finish works out what stands beside PyTorch's own bytes.
func (b *Budget) finish(p *plan) {
	f := ReserveFactor(p.Setting)
	top := b.top()
	loose := top
	if p.Inference { // weights are laid down once and leave no holes
		loose -= b.WeightsBytes + b.oneRequest // so is an engine's pool
	}
	switch {
	case b.Stages != nil:
	case b.Reserved > 0:
		b.Reserved = max(b.Reserved, (top+2*mib-1)/(2*mib)*(2*mib))
	default:
		b.Reserved = (top + int64(float64(loose)*(f-1)) + 2*mib - 1) / (2 * mib) * (2 * mib)
	}
	b.Setting.Reserve, b.Setting.Fullest = 0, 0
	b.Context = p.Device().Context
	if p.GPUs > 1 {
		comms := int64(0)
		dp := p.dp
		if p.Inference { // nothing is reduced over context-parallel ranks
			dp /= p.CP
		}
		for _, n := range []int64{dp, p.TP, p.PP, p.EP, p.CP} {
			if n > 1 {
				comms++
			}
		}
		b.Context += 512*mib + 410*mib*max(comms-1, 0) + p.symmetric()
	}
	b.explain(p)
}

// explain notes what a reader should know about the numbers.
func (b *Budget) explain(p *plan) {
	b.told(p.config.assumed)
	b.Notes = append(b.Notes, p.notes...)
	explainDiffusion(p, b)
	if p.model.DecodesAlone() {
		b.note("a decoder without its encoder: the weights of its attention to one are counted, but a step leaves them out")
	}
	if p.EP > 1 && p.expertTP < p.TP && p.whole.ByRole[network.RoleExpert] > 0 {
		how := "lies whole on a GPU"
		if p.expertTP > 1 {
			how = fmt.Sprintf("is cut over %d GPUs", p.expertTP)
		}
		b.note("each expert %s: the %d GPUs of a stage are too few for --tp %d x --ep %d", how, p.GPUs/p.PP, p.TP, p.EP)
	}
	if p.EP > 1 && p.whole.ByRole[network.RoleExpert] == 0 {
		b.note("--ep %d divides nothing: this model has no experts", p.EP)
	}
	if !p.Inference {
		b.told(optimizers.Of(p.Optimizer).Note)
	}
	b.guess(p)
	p.noteFlatUnits(b)
	b.told(p.profile.Tells)
	for _, n := range notes {
		if n.holds(p) {
			b.note("%s", strings.ReplaceAll(n.text, "{offload}", p.Offload))
		}
	}
}

// notes are what else a reader should know, where it holds.
var notes = []struct {
	holds func(p *plan) bool
	text  string
}{
	{func(p *plan) bool { x := p.model.Mixer(); return x != nil && x.Second && !p.mixerKernels() },
		"mixers run in PyTorch's own operations, as where mamba-ssm and causal-conv1d aren't installed; with them " +
			"(--mixer-kernels) they take much less"},
	{func(p *plan) bool { x := p.model.Mixer(); return x != nil && x.Second && p.mixerKernels() },
		"the mixers' activations are what their fused kernels save, which wasn't recorded"},
	{func(p *plan) bool { x := p.model.Mixer(); return !p.Inference && x != nil && x.Delta },
		"the mixers' activations are those of their fused kernels; without them (flash-linear-attention) the Python code " +
			"keeps much more"},
	{func(p *plan) bool { return p.model.Config.Type == "kimi_linear" && !p.mixerKernels() },
		"delta attention runs in PyTorch's own operations, as where flash-linear-attention isn't installed; with its kernels " +
			"(--mixer-kernels) it takes a small part of that"},
	{func(p *plan) bool { return p.model.Config.Type == "kimi_linear" && p.mixerKernels() },
		"delta attention's activations are what its kernels save, which wasn't recorded"},
	{func(p *plan) bool { return p.model.Waves != nil },
		"--seq counts samples of sound; the feature encoder is trained, too (freeze_feature_encoder() spares most of what its " +
			"convolutions keep), and no layer is dropped"},
	{func(p *plan) bool { return p.Offload != "none" },
		"offload {offload}: optimizer state is in host memory and moves over PCIe each step"},
	{func(p *plan) bool { return p.Precision == "fp8-mixed" },
		"fp8 keeps float32 weights; their fp8 copies are smaller than the bf16 copies counted here"},
	{func(p *plan) bool {
		a := p.model.First()
		return a != nil && p.writesScores(a) && !a.Kernels && p.Attention != "eager"
	},
		"this family's scores are written out (eager attention) whatever the setting says"},
	{func(p *plan) bool {
		a := p.model.First()
		return a != nil && p.writesScores(a) && a.Kernels && p.Attention != "eager"
	},
		"this family has no sdpa: its scores are written out (eager attention), unless --attention flash or flex " +
			"says which kernel runs"},
	{func(p *plan) bool {
		return !p.Inference && slices.ContainsFunc(p.model.Blocks, func(b *network.Block) bool {
			return b.Attention != nil && b.Attention.Window > 0 && b.Attention.Window <= p.Sequence
		})
	}, "layers with a sliding window keep a mask of sequence x sequence for backward: they cost more in training, not less"},
	{func(p *plan) bool { return p.Checkpointing == "full" && p.mixed && p.wide == 4 && !p.Inference },
		"checkpointing under autocast: all 16-bit weight copies stay until the autocast block closes, the loss phase included"},
	{func(p *plan) bool { return p.model.Vision != nil && p.model.Task == network.TaskCausal && !p.Inference },
		"text only: images, or sound, add their encoder's activations"},
	{func(p *plan) bool { return p.KeepGradients },
		"zero_grad(set_to_none=False) keeps the gradients through the forward"},
	{func(p *plan) bool { return !p.Inference && p.dp > 1 && !p.sharded() && p.Zero == 0 },
		"each data-parallel GPU has a whole copy of the model (DDP): --fsdp full or --zero 3 divides it"},
	{func(p *plan) bool { return p.profile.LossWithFused && p.compiledLoss() },
		"the loss is compiled, too, as in torchtitan since 2025, which takes the fused optimizer; with --optimizer adamw it " +
			"isn't, and keeps float32 logits"},
	{func(p *plan) bool { return p.keepsPackedInputs() },
		"packed weights are taken as litgpt's of 2024, with a bitsandbytes that keeps the inputs of packed products until " +
			"the next loss replaces this one; --torch 2.5 or newer takes those since, with the embeddings twice"},
	{func(p *plan) bool { return p.stableEmbedding() },
		"litgpt puts other embeddings in the place of the first ones beside packed weights: both are there, with a gradient " +
			"that nothing sets to zero"},
	{func(p *plan) bool {
		return p.Offload == "optimizer" && strings.HasSuffix(p.Optimizer, "-8bit") && !p.Inference
	}, "state of bitsandbytes' paged optimizers is in managed memory, which PyTorch doesn't count: it is on the GPU as long " +
		"as there is room"},
	{func(p *plan) bool { return p.deepspeed() && p.Zero < 3 && p.ReduceBucket == 0 && p.Offload == "none" },
		"DeepSpeed's bucket for gradients is its default of 500,000,000 elements; --reduce-bucket says another"},
	{func(p *plan) bool { return p.deepspeed() && p.Zero == 3 && p.LiveParameters == 0 },
		"DeepSpeed may have 1,000,000,000 gathered parameters at once, and the budget counts as many: --live-parameters says " +
			"another stage3_max_live_parameters, --prefetch-bucket -1 that nothing is gathered ahead"},
	{func(p *plan) bool { return p.deepspeed() && !p.MasterWeights && p.kept == 2 },
		"DeepSpeed keeps a float32 copy of 16-bit weights, which --master-weights counts"},
	{func(p *plan) bool {
		return p.Checkpointing == "selective" && !p.Inference && p.Attention != "eager" && slices.ContainsFunc(p.model.Blocks,
			func(b *network.Block) bool { return b.Attention != nil && !p.writesScores(b.Attention) })
	}, "--checkpointing selective changes nothing for attention: a fused kernel keeps no scores to begin with"},
	{func(p *plan) bool { return p.Float8 && !p.Compile && !p.Inference },
		"--float8 without --compile: each cast to 8 bits is taken in the steps of eager mode, of which float32 copies are two"},
	{func(p *plan) bool { return p.inMixedInt8() },
		"weights in 8 bits are taken as bitsandbytes': each layer keeps its input until the loss is deleted, checkpointed or " +
			"not; a variable that has the loss until the next step has these as long"},
	{func(p *plan) bool { return p.inMixedInt8() && p.sharded() },
		"weights in 8 bits are taken as sharded and gathered in 8 bits: bitsandbytes' under ZeRO 3 weren't recorded"},
	{func(p *plan) bool { return p.Float8AllGather && (p.FSDP == "" || p.flatUnits()) && !p.Inference },
		"--float8-all-gather is of FSDP2: without --fsdp, and with --fsdp-version 1, it is --float8"},
	{func(p *plan) bool {
		return p.Float8AllGather && p.FSDP != "" && !p.flatUnits() && p.Compile && p.Checkpointing == "none"
	},
		"PyTorch 2.15 keeps transposed 8-bit copies of the feed-forwards' gathered weights from forward to backward; " +
			"--checkpointing op or full makes them in backward"},
	{func(p *plan) bool { return p.MXFP8 && !p.Inference },
		"MXFP8 is taken as torchao's kernels for compute capability 10.0 (B200) make it; emulated ones take more"},
	{func(p *plan) bool {
		return (p.Float8 || p.MXFP8) && p.whole.ByRole[network.RoleExpert] > 0 && !p.Inference
	},
		"products of experts are counted in 16 bits: --float8 and --mxfp8 are taken for the other layers of a block"},
	{func(p *plan) bool {
		return p.Inference && (p.Compile || p.CUDAGraphs || p.Float8 || p.MXFP8 || p.ActivationOffload || p.OptimizerInBackward)
	},
		"--compile, --cuda-graphs, --float8, --mxfp8, --activation-offload and --optimizer-in-backward are of training: they " +
			"change nothing here"},
	{func(p *plan) bool {
		return p.EP > 1 && p.ExpertLoad == 1 && p.whole.ByRole[network.RoleExpert] > 0 && !p.Inference
	},
		"tokens are taken as spread evenly over the experts: --expert-load says how many times an even share those of the " +
			"fullest rank get"},
	{func(p *plan) bool {
		return p.ExpertLoad > 1 && (p.EP == 1 || p.whole.ByRole[network.RoleExpert] == 0 || p.Inference)
	},
		"--expert-load changes nothing without --ep, without experts, and in inference"},
	{func(p *plan) bool { return p.Compile && !p.CUDAGraphs && !p.Inference },
		"compiled without CUDA graphs: for mode reduce-overhead or max-autotune give --cuda-graphs, whose pool takes more"},
	{func(p *plan) bool { return p.Compile && p.profile.CompilesWhole && p.Unsaid },
		"compiled block by block: --framework transformers compiles the whole model with its loss, as its Trainer does"},
	{func(p *plan) bool { return p.compiledWhole() },
		"the model is compiled whole, with its loss, as Transformers' Trainer does it, and not block by block"},
	{func(p *plan) bool { return p.CP > 1 && p.Compile && !p.Inference && p.Torch == "" && !p.megatron() },
		"PyTorch 2.15 keeps the keys and values that compiled context parallelism gathers in each block until backward, which " +
			"older ones do not: --torch 2.15 counts them"},
	{func(p *plan) bool { return p.CUDAGraphs && !p.Inference },
		"the peak is that of the second step, which captures the CUDA graphs; later ones replay them, and PyTorch counts " +
			"what these use as reserved, but not as allocated"},
	{func(p *plan) bool { return p.CUDAGraphs && !p.Inference && p.Accumulate > 1 },
		"PyTorch refuses to accumulate gradients that a CUDA graph has made, unless each .grad was there before it"},
	{func(p *plan) bool {
		return p.CUDAGraphs && !p.Inference && (p.sharded() || p.Zero > 0 || p.PP > 1 || p.TP > 1)
	},
		"CUDA graphs were recorded on one GPU only: with many, their pool isn't known to be as large as is said here"},
	{func(p *plan) bool { return p.profile.Expands && !p.Unsaid && p.Allocator == "native" },
		"torchtitan's run_train.sh sets expandable segments, with which much less is reserved: --allocator expandable; the " +
			"budget is of a launch without"},
	{func(p *plan) bool { return p.unsynced() },
		"gradients of the micro-batches before a step's last one stay whole on each GPU, as Accelerate's no_sync leaves them " +
			"since 1.11: --sync-each-batch reduces each, as it did before"},
	{func(p *plan) bool { return p.TP > 1 && p.profile.PerOperation && !p.AsyncTP },
		"tensor parallelism is taken as synchronous: --async-tp counts the symmetric memory of an asynchronous one"},
	{func(p *plan) bool { return p.AsyncTP && p.symmetric() > 0 },
		"--async-tp, by PyTorch's code and not measured: symmetric memory for two pieces of the stream is beside PyTorch's " +
			"allocator, counted with the context; what is pipelined in the allocator is taken to be as large as without"},
	{func(p *plan) bool { return p.AsyncTP && p.symmetric() == 0 },
		"--async-tp changes nothing without --tp, --sequence-parallel and --compile, and in inference"},
	{func(p *plan) bool {
		return p.FSDP == "" && (p.FSDPVersion == 1 || p.Shards > 0 || p.KeepGathered || p.ReduceDtype != "" || p.FreeGathers)
	}, "--fsdp-version, --fsdp-shards, --keep-gathered, --reduce-dtype and --no-limit-all-gathers are of FSDP: without " +
		"--fsdp they change nothing"},
	{func(p *plan) bool { return p.FSDP != "" && p.FreeGathers && !p.flatUnits() },
		"--no-limit-all-gathers is of --fsdp-version 1: FSDP2 has no such setting, and it changes nothing"},
	{func(p *plan) bool { return p.FSDP == "hybrid" && p.shards(false) == p.dp },
		"--fsdp hybrid is full here: all GPUs share one copy of the model"},
	{func(p *plan) bool { return p.flatUnits() && len(p.adapters) > 0 && !p.OneUnit },
		"adapters are units of their own, as PEFT's fsdp_auto_wrap_policy makes them; --one-unit has them in one with the " +
			"block's frozen weights, which get gradients as well then"},
	{func(p *plan) bool { return p.flatUnits() && len(p.adapters) > 0 && p.OneUnit },
		"adapters are in one unit with the block's frozen weights, which get gradients as well: PEFT's fsdp_auto_wrap_policy " +
			"would save these"},
	{func(p *plan) bool {
		return p.LoRA > 0 && p.LoRATargets == "all" && p.linearExperts()[0] != nil && p.bareExpertsOnly()
	}, "--lora-targets all leaves experts out: PEFT stops at DoRA and dropout on them, and packed ones weren't recorded"},
	{func(p *plan) bool { return p.OneUnit && (!p.flatUnits() || len(p.adapters) == 0) },
		"--one-unit is of adapters with --fsdp and --fsdp-version 1: without, it changes nothing"},
	{func(p *plan) bool {
		return p.TrainedDtype != "" && !((p.freezes() || p.SaveModules != "") && p.kept == 2 && !p.sharded())
	},
		"--set trained-dtype is of training a part of a 16-bit model that isn't sharded (--freeze, --set frozen, trained, " +
			"modules-to-save): it changes nothing here"},
	{func(p *plan) bool { return p.PP == 1 && (p.MicroBatches > 0 || p.Schedule != "1f1b") },
		"--micro-batches and --schedule are of a pipeline: without --pp they change nothing"},
	{func(p *plan) bool { return p.Schedule == "zbv" && p.PP > 1 },
		"zbv is taken as if a backward were one piece: what only gradients of weights wait for is let go early, which was " +
			"recorded as a sixth of the last rank's peak and nothing of the first's"},
	{func(p *plan) bool { return p.UseCache && !p.Inference },
		"use_cache=True in training: keys and values stay for as long as the outputs do"},
}
