package budget

import (
	"fmt"

	"github.com/vramscope/vramscope/budget/network"
)

// newPlan checks a setting against a model and works out widths and shards.
func newPlan(c *Config, s Setting) (*plan, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	built := c.builtBy(s)
	mod, err := built.network()
	if err != nil {
		return nil, err
	}
	notes, err := freeze(s, mod)
	if err != nil {
		return nil, err
	}
	p := &plan{notes: notes, holding: holding{config: built, model: mod, whole: mod.Counts(),
		setup: setup{Setting: s, profile: s.Profile(), width: 2, wide: 2, dp: s.GPUs / (s.TP * s.PP)}}}
	p.expertTP, p.expertDP = s.ExpertRanks()
	p.setWidths()
	if err := served(s, mod); err != nil {
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
func served(s Setting, mod *network.Model) error {
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
func (p *holding) inEightBits() {
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

// frozenPacked says whether adapters are trained on packed weights.
func (p *holding) frozenPacked() bool {
	return p.Adapts() && (p.Precision == "int8" || p.Precision == "int4" || p.packing() != nil)
}

// autocastsNarrow says whether the Trainer's autocast is round 16-bit weights: of those there is
// nothing to copy, but of what is wider.
func (p *setup) autocastsNarrow() bool {
	return p.Trainer && p.width == 2 && !p.Inference && p.Zero == 0 && p.FSDP == ""
}

// packedShards refuses those that libraries refuse: recorded were bitsandbytes 0.50 and torchao 0.18.
func (p *holding) packedShards() error {
	if p.inMixedInt8() && p.FSDP != "" && p.sharded() {
		return fmt.Errorf("--fsdp doesn't shard weights in 8 bits: bitsandbytes' lose their scales (FSDP2) or can't be " +
			"flattened (FSDP1), torchao's can't be split: take --precision int4, or leave --fsdp out")
	}
	return nil
}

// stages refuses a pipeline that the model cannot be divided into.
func (p *holding) stages() error {
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
func (p *holding) overflow() error {
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

// giveBack keeps a network for the next budget unless it was divided, given adapters, or is a framework's own.
func (p *plan) giveBack(c *Config) {
	as := p.TP == 1 && p.EP == 1 && p.PP == 1 && !p.Adapts() && p.Freeze == 0 && !p.FreezeVision && !p.Float8 && !p.MXFP8 &&
		p.Frozen == "" && p.Trained == ""
	if as && p.model.Config == c.Config {
		c.spare.Store(p.model)
	}
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
	m, err := c.seen()
	return err == nil && m.Pictures()
}
