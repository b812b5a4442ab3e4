package budget

import (
	"fmt"
	"strconv"

	"github.com/vramscope/vramscope/internal/pattern"
)

var version = pattern.Of(`^v?[0-9]{1,3}\.[0-9]{1,3}`)

// check refuses settings that cannot be.
func (s Setting) check() error {
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
	return n, err == nil && n > 0 && n <= maxLayers
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
