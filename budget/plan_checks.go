package budget

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/budget/network"
	"github.com/vramscope/vramscope/internal/pattern"
)

var version = pattern.Of(`^v?[0-9]{1,3}\.[0-9]{1,3}`)

// check refuses settings that cannot be.
func (s Setting) check() error {
	if s.Tokens < 0 || s.Tokens > mostPrompts { // before the length of prompts that comes of it
		return fmt.Errorf("--batch-tokens %d: at least 1, at most %d", s.Tokens, mostPrompts)
	}
	one := s
	one.Framework = s.profile().name(s.Framework)
	if _, n := s.everyNth(); n {
		one.Checkpointing = "none"
	}
	for i := range Fields {
		if err := Fields[i].check(&one); err != nil {
			return err
		}
	}
	return s.refused()
}

// everyNth is the N of checkpointing every Nth block.
func (s Setting) everyNth() (int64, bool) {
	n, err := strconv.ParseInt(s.Checkpointing, 10, 64)
	return n, err == nil && n > 0 && n <= network.MaxLayers
}

// recomputes says whether whole blocks run again in backward.
func (s Setting) recomputes() bool {
	_, n := s.everyNth()
	return n || s.Checkpointing == "full" || s.Checkpointing == "offload"
}

// newPlan checks a setting against a model and works out widths and shards.
func newPlan(c *Config, s Setting) (*plan, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	built := c.builtBy(s)
	mod, err := built.network()
	if err != nil {
		return nil, err
	}
	if err := s.freeze(mod); err != nil {
		return nil, err
	}
	p := &plan{Setting: s, profile: s.profile(), config: built, model: mod, width: 2, wide: 2, dp: s.GPUs / (s.TP * s.PP),
		whole: mod.Counts()}
	p.expertTP, p.expertDP = s.expertRanks()
	p.setWidths()
	if err := s.served(mod); err != nil {
		return nil, err
	}
	if err := p.withinPositions(); err != nil {
		return nil, err
	}
	p.Sequence /= s.CP
	if s.Inference && mod.Encoder != nil {
		p.DecoderSeq = 1 // the prompt is the encoder's: the decoder starts with one token
	}
	if mod.Patch != nil {
		p.Sequence = mod.Patches
	}
	for _, f := range []func() error{func() error { return diffuses(p) }, func() error { return stepwise(p) },
		p.stages, p.overflow, p.packedShards, p.tensorParallel, p.addAdapters} {
		if err := f(); err != nil {
			return nil, err
		}
	}
	p.inEightBits()
	return p, nil
}

// served refuses what isn't.
func (s Setting) served(mod *network.Model) error {
	switch decoder := mod.Encoder == nil && mod.Generates(); {
	case s.Engine != "" && !decoder:
		return fmt.Errorf("--engine %s serves decoders alone", network.Short(s.Engine))
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
	for _, b := range p.model.Blocks {
		for _, l := range b.Linears() {
			l.Weight.Eight = l.Weight.Trainable
		}
		if b.FF != nil {
			for _, l := range b.FF.Linears() {
				l.Late = true
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
	p.mixed = p.mixed || p.autocastsNarrow() || scriptOfAdapters(p)
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
	switch n := len(p.model.Blocks); {
	case p.PP == 1:
		return nil
	case p.model.Encoder != nil:
		return fmt.Errorf("--pp %d: pipeline stages of encoder-decoder models are not supported", p.PP)
	case p.model.Task == network.TaskContrast:
		return fmt.Errorf("--pp %d: pipeline stages of models with two encoders are not supported", p.PP)
	case p.model.Deberta != nil:
		return fmt.Errorf("--pp %d: pipeline stages of models whose layers share a table of distances are not supported", p.PP)
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
	for _, q := range p.model.Params {
		n := 1.0
		for _, d := range q.Shape {
			n *= float64(d)
		}
		total += n
	}
	for _, b := range p.model.Blocks {
		wide += float64(p.model.Hidden)*64 + b.PerToken(seq)
	}
	wide += 64 * float64(p.model.Vocab+p.model.Hidden)
	if total*32+t*wide*float64(max(p.PP, 1)) > 1<<62 {
		return fmt.Errorf("a batch of %d sequences of %d tokens needs more bytes than 2^62: no machine has them", p.Batch,
			max(p.Sequence, p.Context))
	}
	return nil
}

// network is the configuration's, built anew unless one is spare.
func (c *Config) network() (*network.Model, error) {
	if m := c.spare.Swap(nil); m != nil {
		return m, nil
	}
	return c.build()
}

// giveBack keeps a network for the next budget unless it was divided, given
// adapters, or is a framework's own.
func (p *plan) giveBack(c *Config) {
	as := p.TP == 1 && p.EP == 1 && p.PP == 1 && !p.adapts() && p.Freeze == 0 && !p.FreezeVision && !p.Float8 && !p.MXFP8
	if as && p.model.Config == c.Config {
		c.spare.Store(p.model)
	}
}

// refusal is why a setting cannot be, in a sentence with the values of fields in braces.
type refusal struct {
	holds func(s *Setting) bool
	text  string
}

// sameWeights is how many GPUs have the same weights: context-parallel ranks do, too.
func (s *Setting) sameWeights() int64 { return s.GPUs / (s.TP * s.PP) }

func (s *Setting) narrow() bool { return s.Precision == "bf16" || s.Precision == "bf16-mixed" }

// unsharded says whether there is nothing to shard over.
func (s *Setting) unsharded() bool { return s.sameWeights() < 2 && !s.Inference }

// refusals are of what fields say together; the first one counts.
var refusals = []refusal{
	{func(s *Setting) bool { return s.Torch != "" && !version().MatchString(s.Torch) },
		"--torch {torch}: a version, such as 2.8"},
	{func(s *Setting) bool { return !(s.ExpertLoad >= 1 && s.ExpertLoad <= max(float64(s.EP), 2)) },
		"--expert-load {expert-load}: from 1, an even share, to --ep, all tokens"},
	{func(s *Setting) bool { return s.StagesPerRank > 0 && s.Schedule != "interleaved" },
		"--stages-per-rank {stages-per-rank}: goes with --schedule interleaved"},

	{func(s *Setting) bool { return s.SequenceParallel && s.TP == 1 },
		"--sequence-parallel splits what --tp leaves whole: add --tp N"},
	{func(s *Setting) bool { return s.SequenceParallel && s.Sequence/s.CP%s.TP != 0 },
		"--seq {seq} over --cp {cp} cannot be divided over --tp {tp}"},
	{func(s *Setting) bool { return s.FSDP != "" && s.FSDPVersion == 1 && s.PP > 1 },
		"--fsdp-version 1 goes without --pp: pipelines take --fsdp-version 2"},
	{func(s *Setting) bool { return s.Shards < 0 || s.Shards > 0 && s.sameWeights()%s.Shards != 0 },
		"--fsdp-shards {fsdp-shards} does not divide the {same} GPUs that have the same weights"},
	{func(s *Setting) bool { return s.Zero > 0 && s.FSDP != "" }, "--zero and --fsdp shard the same thing: give one of them"},
	{func(s *Setting) bool { return s.GPUs%(s.TP*s.PP*s.CP) != 0 },
		"--gpus {gpus} cannot be divided into tensor x pipeline x context parallel groups of {tp} x {pp} x {cp}"},
	{func(s *Setting) bool { return s.FSDP != "" && s.unsharded() },
		"--fsdp {fsdp} needs at least two data-parallel or context-parallel GPUs to shard over, and --gpus {gpus} leaves {same}"},
	{func(s *Setting) bool { return s.Zero > 0 && s.unsharded() },
		"--zero {zero} needs at least two data-parallel or context-parallel GPUs to shard over, and --gpus {gpus} leaves {same}"},
	{func(s *Setting) bool { return s.EP > 1 && (s.GPUs/s.PP)%s.EP != 0 },
		"--ep {ep} does not divide --gpus {gpus} over --pp {pp}, the GPUs of a pipeline stage"},
	{func(s *Setting) bool { return s.CP > 1 && s.Sequence%s.CP != 0 }, "--seq {seq} cannot be divided over --cp {cp}"},

	{func(s *Setting) bool { return s.Attention == "flash" && s.Precision == "fp32" },
		"--attention flash has no float32 kernels: take sdpa, or a 16-bit precision"},
	{func(s *Setting) bool { return weightBits[s.Precision] > 0 && !s.Inference && !s.adapts() },
		"--precision {precision} cannot be trained as it is: add --lora R (QLoRA) or --inference"},
	{func(s *Setting) bool { return s.Float8AllGather && s.byRows() },
		"--float8-all-gather goes with one scale for a tensor: leave --float8-recipe {float8-recipe} out"},
	{func(s *Setting) bool { return s.MXFP8 && s.Float8 },
		"--mxfp8 and --float8 are two ways of products in 8 bits: give one of them"},
	{func(s *Setting) bool { return s.MXFP8 && !s.narrow() },
		"--mxfp8 makes products of 16-bit numbers in 8 bits: take --precision bf16 or bf16-mixed"},
	{func(s *Setting) bool { return s.Float8 && !s.narrow() },
		"--float8 makes products of 16-bit numbers in 8 bits: take --precision bf16 or bf16-mixed"},
	{func(s *Setting) bool { return s.OptimizerInBackward && s.Accumulate > 1 },
		"--optimizer-in-backward steps after each micro-batch: it goes without --accumulate"},

	{func(s *Setting) bool { return s.DoRA && s.LoRA == 0 }, "--dora is a kind of LoRA: add --lora RANK"},
	{func(s *Setting) bool { return s.DoRA && s.Adapter != "dora" },
		"--dora and --adapter {adapter} are two kinds of adapters: give one of them"},
	{func(s *Setting) bool { return s.Adapter == "ia3" && s.LoRA > 0 }, "--adapter ia3 has no rank: leave --lora out"},
	{func(s *Setting) bool { return s.Adapter != "lora" && !s.adapts() },
		"--adapter {adapter} is a kind of LoRA: add --lora RANK"},
	{func(s *Setting) bool { return s.SaveModules != "" && !s.adapts() },
		"--modules-to-save names what is trained beside adapters: add --lora RANK"},
	{func(s *Setting) bool { return s.adapts() && s.Inference },
		"adapters are a way of training: leave --inference out, merged ones cost nothing"},
}

// refused is an error that says why a setting cannot be, nil where it can.
func (s *Setting) refused() error {
	for _, x := range refusals {
		if !x.holds(s) {
			continue
		}
		values := []string{"{same}", fmt.Sprint(s.sameWeights())}
		for i := range Fields {
			values = append(values, "{"+Fields[i].Name+"}", network.Short(fmt.Sprint(Fields[i].is(s))))
		}
		return fmt.Errorf("%s", strings.NewReplacer(values...).Replace(x.text))
	}
	return nil
}

// stepwise refuses what a model whose stages have widths of their own, or whose layers take more than a stream, can't be divided
// into.
func stepwise(p *plan) error {
	m := p.model
	layers := m.TakesMore()
	for _, x := range []struct {
		flag, what string
		ranks      int64
		refused    bool
	}{
		{"pp", "pipeline stages", p.PP, m.Stepped || layers}, {"tp", "tensor-parallel layers", p.TP, layers},
		{"cp", "divided sequences", p.CP, layers || m.Pictures()},
	} {
		if x.refused && x.ranks > 1 {
			return fmt.Errorf("--%s %d: %s of %s are not supported", x.flag, x.ranks, x.what, m.Config.Type)
		}
	}
	return nil
}

// Unsequenced says whether a model takes pictures alone, whose size is its own: no length of a sequence changes anything.
func (c *Config) Unsequenced() bool {
	m, err := c.network()
	if err != nil {
		return false
	}
	c.spare.Store(m)
	return m.Pictures()
}
