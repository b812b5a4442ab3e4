package budget

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/internal/pattern"
)

// choices are the words that a setting's fields accept.
var choices = map[string][]string{
	"precision":      {"fp32", "bf16", "fp16", "bf16-mixed", "fp16-mixed", "fp8-mixed", "int8", "int4"},
	"checkpointing":  {"none", "selective", "op", "full", "offload", "or N for every Nth block"},
	"schedule":       {"1f1b", "interleaved", "gpipe", "zbv"},
	"framework":      Frameworks(),
	"attention":      {"eager", "sdpa", "flash", "flex"},
	"loss":           {"default", "logits-only", "cross-entropy", "chunked", "fused", "shifted", "smoothed"},
	"offload":        {"none", "optimizer", "params"},
	"cache":          {"dynamic", "static", "none"},
	"kv":             {"", "fp32", "bf16", "fp16", "fp8", "int8", "int4"},
	"lora-dtype":     {"model", "fp32"},
	"gradient-dtype": {"", "fp32"},
	"adapter":        {"lora", "rslora", "dora", "lora-fa", "ia3"},
	"fsdp":           {"", "full", "hybrid"},
	"reduce-dtype":   {"", "fp32", "bf16", "fp16"},
	"fsdp-ends":      {"", "apart", "together"},
	"float8-recipe":  {"", "tensorwise", "rowwise", "rowwise_with_gw_hp"},
	"allocator":      {"native", "expandable"},
}

// oneOf checks a word.
func oneOf(name, v string) error {
	if l := choices[name]; !slices.Contains(l, v) {
		return fmt.Errorf("--%s %q: one of %s", name, short(v), strings.TrimSpace(strings.Join(l, " ")))
	}
	return nil
}

var version = pattern.Of(`^v?[0-9]{1,3}\.[0-9]{1,3}`)

// check refuses settings that cannot be.
func (s Setting) check() error {
	for _, f := range []func() error{
		s.checkWords, s.checkNumbers, s.checkEngine, s.checkRanks, s.checkPrecision, s.checkAdapters,
	} {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

func (s Setting) checkWords() error {
	if _, n := s.everyNth(); n {
		s.Checkpointing = "none"
	}
	for _, c := range [][2]string{{"precision", s.Precision}, {"checkpointing", s.Checkpointing}, {"attention", s.Attention},
		{"schedule", s.Schedule}, {"framework", s.profile().name(s.Framework)},
		{"loss", s.Loss}, {"offload", s.Offload},
		{"cache", s.Cache}, {"kv", s.KV}, {"lora-dtype", s.LoRADtype}, {"adapter", s.Adapter}, {"fsdp", s.FSDP},
		{"reduce-dtype", s.ReduceDtype}, {"gradient-dtype", s.GradientDtype}, {"fsdp-ends", s.FSDPEnds},
		{"float8-recipe", s.Float8Recipe},
		{"allocator", s.Allocator}} {
		if err := oneOf(c[0], c[1]); err != nil {
			return err
		}
	}
	if _, ok := optimizers[s.Optimizer]; !ok {
		return fmt.Errorf("--optimizer %q: one of %s", short(s.Optimizer), strings.Join(Optimizers(), " "))
	}
	return nil
}

// everyNth is the N of checkpointing every Nth block.
func (s Setting) everyNth() (int64, bool) {
	n, err := strconv.ParseInt(s.Checkpointing, 10, 64)
	return n, err == nil && n > 0 && n <= maxLayers
}

// recomputes says whether whole blocks run again in backward.
func (s Setting) recomputes() bool {
	_, n := s.everyNth()
	return n || s.Checkpointing == "full" || s.Checkpointing == "offload"
}

func (s Setting) checkNumbers() error {
	for _, n := range []struct {
		name string
		v    int64
	}{{"batch", s.Batch}, {"seq", s.Sequence}, {"decoder-seq", s.DecoderSeq}, {"accumulate", s.Accumulate}, {"tp", s.TP},
		{"pp", s.PP}, {"ep", s.EP}, {"cp", s.CP}, {"gpus", s.GPUs}, {"context", s.Context}} {
		if n.v < 1 {
			return fmt.Errorf("--%s %d: at least 1", n.name, n.v)
		}
		if n.v > 1<<40 {
			return fmt.Errorf("--%s %d: more than any run has", n.name, n.v)
		}
	}
	switch {
	case s.Torch != "" && !version().MatchString(s.Torch):
		return fmt.Errorf("--torch %q: a version, such as 2.8", short(s.Torch))
	case s.NewTokens < 0 || s.NewTokens > 1<<40:
		return fmt.Errorf("--new-tokens %d: zero or more", s.NewTokens)
	case s.Copies < 0 || s.Copies > 64:
		return fmt.Errorf("--copies %d: 0 to 64", s.Copies)
	case s.LoRA < 0 || s.LoRA > 1<<20:
		return fmt.Errorf("--lora %d is no rank", s.LoRA)
	case !(s.ExpertLoad >= 1 && s.ExpertLoad <= max(float64(s.EP), 2)):
		return fmt.Errorf("--expert-load %v: from 1, an even share, to --ep, all tokens", s.ExpertLoad)
	case !(s.LoRADropout >= 0 && s.LoRADropout < 1):
		return fmt.Errorf("--lora-dropout %v: a probability below 1", s.LoRADropout)
	case s.ReduceBucket < -1 || s.ReduceBucket > 1<<40:
		return fmt.Errorf("--reduce-bucket %d: elements, or -1", s.ReduceBucket)
	case s.LiveParameters < 0 || s.LiveParameters > 1<<50:
		return fmt.Errorf("--live-parameters %d: zero or more", s.LiveParameters)
	case s.MicroBatches < 0 || s.MicroBatches > 1<<20:
		return fmt.Errorf("--micro-batches %d: at least 1", s.MicroBatches)
	case s.StagesPerRank < 0 || s.StagesPerRank > 1<<20 || s.StagesPerRank > 0 && s.Schedule != "interleaved":
		return fmt.Errorf("--stages-per-rank %d: at least 1, with --schedule interleaved", s.StagesPerRank)
	case s.Zero < 0 || s.Zero > 3:
		return fmt.Errorf("--zero %d: a stage from 0 to 3", s.Zero)
	}
	return nil
}

func (s Setting) checkEngine() error {
	switch {
	case s.Engine != "" && engines[s.Engine].share == 0:
		return fmt.Errorf("--engine %q: vllm or sglang", short(s.Engine))
	case !(s.Share >= 0 && s.Share <= 1 && s.Shared >= 0 && s.Shared <= 1):
		return fmt.Errorf("--gpu-share and --prefix-share are from 0 to 1")
	case s.Tokens < 0 || s.Tokens > 1<<40:
		return fmt.Errorf("--batch-tokens %d: zero or more", s.Tokens)
	}
	return nil
}

func (s Setting) checkRanks() error {
	dp := s.GPUs / (s.TP * s.PP) // context-parallel ranks have the same weights, too
	switch {
	case s.SequenceParallel && s.TP == 1:
		return fmt.Errorf("--sequence-parallel splits what --tp leaves whole: add --tp N")
	case s.SequenceParallel && s.Sequence/s.CP%s.TP != 0:
		return fmt.Errorf("--seq %d cannot be divided over --tp %d", s.Sequence/s.CP, s.TP)
	case s.FSDPVersion < 0 || s.FSDPVersion > 2:
		return fmt.Errorf("--fsdp-version %d: 1 or 2", s.FSDPVersion)
	case s.FSDP != "" && s.FSDPVersion == 1 && s.PP > 1:
		return fmt.Errorf("--fsdp-version 1 goes without --pp: pipelines take --fsdp-version 2")
	case s.Shards < 0 || s.Shards > 0 && dp%s.Shards != 0:
		return fmt.Errorf("--fsdp-shards %d does not divide the %d GPUs that have the same weights", s.Shards, dp)
	case s.Zero > 0 && s.FSDP != "":
		return fmt.Errorf("--zero and --fsdp shard the same thing: give one of them")
	case s.GPUs%(s.TP*s.PP*s.CP) != 0:
		return fmt.Errorf("--gpus %d cannot be divided into tensor x pipeline x context parallel groups of %d x %d x %d", s.GPUs,
			s.TP, s.PP, s.CP)
	case (s.Zero > 0 || s.FSDP != "") && dp < 2 && !s.Inference:
		what := fmt.Sprintf("--zero %d", s.Zero)
		if s.FSDP != "" {
			what = "--fsdp " + s.FSDP
		}
		return fmt.Errorf("%s needs at least two data-parallel or context-parallel GPUs to shard over, and --gpus %d leaves %d",
			what, s.GPUs, dp)
	case s.EP > 1 && (s.GPUs/s.PP)%s.EP != 0:
		return fmt.Errorf("--ep %d does not divide the %d GPUs of a pipeline stage", s.EP, s.GPUs/s.PP)
	case s.CP > 1 && s.Sequence%s.CP != 0:
		return fmt.Errorf("--seq %d cannot be divided over --cp %d", s.Sequence, s.CP)
	}
	return nil
}

func (s Setting) checkPrecision() error {
	quantised := s.Precision == "int8" || s.Precision == "int4"
	switch {
	case s.Attention == "flash" && s.Precision == "fp32":
		return fmt.Errorf("--attention flash has no float32 kernels: take sdpa, or a 16-bit precision")
	case quantised && !s.Inference && !s.adapts():
		return fmt.Errorf("--precision %s cannot be trained as it is: add --lora R (QLoRA) or --inference", s.Precision)
	case s.Float8AllGather && s.byRows():
		return fmt.Errorf("--float8-all-gather goes with one scale for a tensor: leave --float8-recipe %s out", s.Float8Recipe)
	case s.MXFP8 && s.Float8:
		return fmt.Errorf("--mxfp8 and --float8 are two ways of products in 8 bits: give one of them")
	case s.MXFP8 && s.Precision != "bf16" && s.Precision != "bf16-mixed":
		return fmt.Errorf("--mxfp8 makes products of 16-bit numbers in 8 bits: take --precision bf16 or bf16-mixed")
	case s.Float8 && s.Precision != "bf16" && s.Precision != "bf16-mixed":
		return fmt.Errorf("--float8 makes products of 16-bit numbers in 8 bits: take --precision bf16 or bf16-mixed")
	case s.OptimizerInBackward && s.Accumulate > 1:
		return fmt.Errorf("--optimizer-in-backward steps after each micro-batch: it goes without --accumulate")
	}
	return nil
}

func (s Setting) checkAdapters() error {
	switch {
	case s.DoRA && s.LoRA == 0:
		return fmt.Errorf("--dora is a kind of LoRA: add --lora RANK")
	case s.DoRA && s.Adapter != "dora":
		return fmt.Errorf("--dora and --adapter %s are two kinds of adapters: give one of them", s.Adapter)
	case s.Adapter == "ia3" && s.LoRA > 0:
		return fmt.Errorf("--adapter ia3 has no rank: leave --lora out")
	case s.Adapter != "lora" && !s.adapts():
		return fmt.Errorf("--adapter %s is a kind of LoRA: add --lora RANK", s.Adapter)
	case s.SaveModules != "" && !s.adapts():
		return fmt.Errorf("--modules-to-save names what is trained beside adapters: add --lora RANK")
	case s.adapts() && s.Inference:
		return fmt.Errorf("adapters are a way of training: leave --inference out, merged ones cost nothing")
	}
	return nil
}

// newPlan checks a setting against a model and works out widths and shards.
func newPlan(c *Config, s Setting) (*plan, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	mod, err := c.builtBy(s).network()
	if err != nil {
		return nil, err
	}
	if err := s.freeze(mod); err != nil {
		return nil, err
	}
	p := &plan{Setting: s, profile: s.profile(), model: mod, width: 2, wide: 2, dp: s.GPUs / (s.TP * s.PP), whole: mod.counts()}
	p.expertTP, p.expertDP = s.expertRanks()
	p.setWidths()
	if err := s.served(mod); err != nil {
		return nil, err
	}
	if err := p.withinPositions(); err != nil {
		return nil, err
	}
	p.Sequence /= s.CP
	if s.Inference && mod.encoder != nil {
		p.DecoderSeq = 1 // the prompt is the encoder's: the decoder starts with one token
	}
	if mod.patch != nil {
		p.Sequence = mod.patches
	}
	for _, f := range []func() error{p.stages, p.overflow, p.packedShards, p.tensorParallel, p.addAdapters} {
		if err := f(); err != nil {
			return nil, err
		}
	}
	p.inEightBits()
	return p, nil
}

// served refuses what isn't.
func (s Setting) served(mod *model) error {
	switch decoder := mod.encoder == nil && mod.generates(); {
	case s.Engine != "" && !decoder:
		return fmt.Errorf("--engine %s serves decoders alone", short(s.Engine))
	case s.Inference && decoder && s.Context < s.Sequence:
		return fmt.Errorf("--context %d is shorter than the prompt of %d tokens (--seq)", s.Context, s.Sequence)
	}
	return nil
}

// inEightBits marks the weights whose products are made in 8 bits: those of the blocks' layers
// that are trained.
func (p *plan) inEightBits() {
	if !p.Float8 && !p.MXFP8 || p.Inference {
		return
	}
	for _, b := range p.model.blocks {
		for _, l := range b.linears() {
			l.weight.eight = l.weight.trainable
		}
		if b.ff != nil {
			for _, l := range b.ff.linears() {
				l.late = true
			}
		}
	}
}

// setWidths works out how wide parameters are where they are kept, seen by layers and
// computed with.
func (p *plan) setWidths() {
	switch p.Precision {
	case "fp32":
		p.width, p.wide = 4, 4
	case "bf16-mixed", "fp16-mixed", "fp8-mixed":
		p.mixed, p.wide = true, 4
	}
	if p.Inference && p.Precision == "fp8-mixed" {
		p.mixed, p.wide = false, 2
	}
	if p.PrepareKbit && p.frozenPacked() {
		p.wide = 4
	}
	p.kept = p.wide
	p.mixed = p.mixed || p.autocastsNarrow()
	if p.FSDP != "" && p.mixed && p.dp > 1 && !p.Inference {
		p.wide = 2                                // shards are float32, what is gathered of them is 16 bits wide: nothing to cast
		p.mixed = p.Trainer && p.FSDPVersion == 1 // Accelerate leaves autocast out with FSDP2
	}
}

// autocastsNarrow says whether the Trainer's autocast is round 16-bit weights: of those there is
// nothing to copy, but of what is wider.
func (p *plan) autocastsNarrow() bool {
	return p.Trainer && p.width == 2 && !p.Inference && p.Zero == 0 && p.FSDP == ""
}

// frozenPacked says whether adapters are trained on packed weights.
func (p *plan) frozenPacked() bool {
	return p.adapts() && (p.Precision == "int8" || p.Precision == "int4" || p.packing() != nil)
}

// packedShards refuses those that libraries refuse: recorded were bitsandbytes 0.50 and torchao 0.18.
func (p *plan) packedShards() error {
	if p.inMixedInt8() && p.FSDP != "" && p.sharded() {
		return fmt.Errorf("--fsdp doesn't shard weights in 8 bits: bitsandbytes' lose their scales (FSDP2) or can't be " +
			"flattened (FSDP1), torchao's can't be split: take --precision int4, or leave --fsdp out")
	}
	return nil
}

// stages refuses a pipeline that the model cannot be divided into.
func (p *plan) stages() error {
	switch n := len(p.model.blocks); {
	case p.PP == 1:
		return nil
	case p.model.encoder != nil:
		return fmt.Errorf("--pp %d: pipeline stages of encoder-decoder models are not supported", p.PP)
	case p.model.task == taskContrast:
		return fmt.Errorf("--pp %d: pipeline stages of models with two encoders are not supported", p.PP)
	case p.StagesPerRank > int64(n) || int64(n) < p.PP*p.StagesPerRank || int64(n) < p.PP:
		return fmt.Errorf("--pp %d: the model's %d layers cannot be divided into as many stages", p.PP*max(p.StagesPerRank, 1), n)
	}
	return nil
}

// overflow refuses what would not fit into 63 bits, in floating point so that
// the check itself cannot overflow.
func (p *plan) overflow() error {
	t := float64(p.Batch) * float64(max(p.Sequence, p.Context)+p.NewTokens)
	seq := float64(p.Sequence)
	var total, wide float64
	for _, q := range p.model.params {
		n := 1.0
		for _, d := range q.Shape {
			n *= float64(d)
		}
		total += n
	}
	for _, b := range p.model.blocks {
		w := float64(p.model.hidden) * 64
		for _, l := range b.linears() {
			w += 16 * float64(l.in+l.out)
		}
		if a := b.attn; a != nil {
			w += float64(a.heads) * (seq*40 + float64(a.d)*64)
		}
		if x, ok := b.ff.(*experts); ok {
			w += float64(x.topK) * float64(x.inner+x.h) * 64
		}
		if x, ok := b.mixer.(*mamba); ok {
			w += float64(x.inner) * float64(x.state_+4) * 64
		}
		wide += w
	}
	wide += 64 * float64(p.model.vocab+p.model.hidden)
	if total*32+t*wide*float64(max(p.PP, 1)) > 1<<62 {
		return fmt.Errorf("a batch of %d sequences of %d tokens needs more bytes than 2^62: no machine has them", p.Batch,
			max(p.Sequence, p.Context))
	}
	return nil
}

// network is the configuration's, built anew unless one is spare.
func (c *Config) network() (*model, error) {
	if m := c.spare.Swap(nil); m != nil {
		return m, nil
	}
	return newModel(c)
}

// giveBack keeps a network for the next budget unless it was divided or given
// adapters.
func (p *plan) giveBack(c *Config) {
	as := p.TP == 1 && p.EP == 1 && p.PP == 1 && !p.adapts() && p.Freeze == 0 && !p.Float8 && !p.MXFP8
	if as && p.model.config.spare == c.spare {
		c.spare.Store(p.model)
	}
}
