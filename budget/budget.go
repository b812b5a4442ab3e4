package budget

import (
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/budget/autograd"
	"github.com/vramscope/vramscope/budget/network"
	"github.com/vramscope/vramscope/budget/optimizers"
)

// Budget is the answer: what is alive in each phase.
type Budget struct {
	Model        ModelInfo
	Setting      Setting
	Phases       []PhaseBytes
	PeakBytes    int64 // requested bytes PyTorch holds at once in a steady step
	PeakPhase    Phase
	Categories   Categories // at the peak
	FirstStep    int64      // peak of the first step
	Reserved     int64      // what the allocator takes from the device for it
	Host         int64      // what an offload keeps in host memory, by this GPU's process
	Context      int64      // CUDA context and communicators, outside PyTorch
	CacheToken   int64      // serving: bytes of cache per token and sequence
	CacheFixed   int64      // serving: bytes of cache that do not grow, per sequence
	WeightsBytes int64
	Stages       []Stage // of a pipeline
	Notes        []string

	guessed    bool  // a part of it isn't near anything measured
	oneRequest int64 // serving by an engine: the cache of one request of full length
	Fullest    int64 // the rank of a pipeline that is shown, from 1 on
}

// ModelInfo describes the model.
type ModelInfo struct {
	Type       string `json:"type"`
	Parameters int64  `json:"parameters"`
	Active     int64  `json:"active_parameters"`
	Trainable  int64  `json:"trainable_parameters"`
	Embedding  int64  `json:"embedding_parameters"`
	Layers     int64  `json:"layers"`
	Hidden     int64  `json:"hidden"`
	Vocabulary int64  `json:"vocabulary"`
	Positions  int64  `json:"-"` // learned ones, which bound a sequence; 0 without
}

// PhaseBytes is one phase.
type PhaseBytes struct {
	Phase      Phase
	Peak, End  int64
	Categories Categories // at the phase's peak
}

// top is the most that is ever allocated.
func (b *Budget) top() int64 { return max(b.PeakBytes, b.FirstStep) }

// TotalDevice is everything on the device.
func (b *Budget) TotalDevice() int64 { return b.Reserved + b.Context }

// Phase finds a phase, nil when the setting has none such.
func (b *Budget) Phase(p Phase) *PhaseBytes {
	for i := range b.Phases {
		if b.Phases[i].Phase == p {
			return &b.Phases[i]
		}
	}
	return nil
}

// broken makes an error of a panic: a configuration that no test has thought of
// must not end the program.
func (c *Config) broken(err *error) {
	if e := recover(); e != nil {
		*err = fmt.Errorf("%s: this configuration cannot be worked through: %v", c.Type, e)
	}
}

// Compute works a budget out.
func Compute(c *Config, s Setting) (b *Budget, err error) {
	defer c.broken(&err)
	if s, err = c.Complete(s); err != nil {
		return nil, err
	}
	if b := c.remembered(s); b != nil {
		return b, nil
	}
	p, err := newPlan(c, s)
	if err != nil {
		return nil, err
	}
	b = &Budget{Setting: s}
	b.describe(c, p)
	b.packingNote(p)
	switch {
	case s.Inference:
		p.serve(b)
	case s.PP > 1:
		p.pipeline(b)
	default:
		p.train(b)
	}
	b.finish(p)
	p.giveBack(c)
	c.remember(s, b)
	return b, nil
}

func (b *Budget) describe(c *Config, p *plan) {
	n, m := p.whole, p.model
	b.Model = ModelInfo{Type: c.Type, Parameters: n.Total, Active: n.Active, Embedding: n.Embedding, Layers: int64(m.Layers),
		Hidden: m.Hidden, Vocabulary: m.Vocab, Positions: m.Positions()}
	if m.Encoder != nil {
		b.Model.Layers += int64(len(m.Encoder.Blocks))
	}
	b.Model.Trainable = n.Trainable
	if p.Adapts() {
		b.Model.Trainable = network.Elements(p.everything(), func(q *parameter) bool { return q.Trainable })
	}
	if p.Inference {
		b.Model.Trainable = 0
	}
}

// trained is the model with all that this rank trains of it.
func (p *holding) trained() *network.Model {
	if p.all != nil {
		return p.all
	}
	return p.model
}

// everything is what this rank has of the model, and the adapters that hang on it.
func (p *holding) everything() []*parameter {
	return append(slices.Clone(p.trained().Params), p.adapters...)
}

// betweenSteps is how wide a parameter, its gradient and its state are between steps.
func (p *holding) betweenSteps(q *parameter) int64 {
	if q.Adapter {
		return p.adapterWidth()
	}
	if p.widened(q) {
		return 4
	}
	return p.kept
}

// gradients is what a rank holds of its gradients once they are reduced.
func (p *holding) gradients() int64 {
	if p.gradientsGo() {
		return 0
	}
	dense, experts := p.gradientParts()
	from := 2
	if p.gathersLate() {
		from = 1
	}
	return p.share(dense, from, false) + p.share(experts, from, true)
}

// gradientWidth is how wide a parameter's gradient is between steps.
func (p *holding) gradientWidth(q *parameter) int64 {
	if p.wideGradients() && !q.Adapter {
		return 4
	}
	return p.betweenSteps(q)
}

// wideGradients says whether those of 16-bit weights add up in a float32 buffer, as Megatron-LM's do, which DDP reduces in place.
func (p *setup) wideGradients() bool {
	return p.GradientDtype == "fp32" && p.kept == 2 && p.FSDP == "" && p.Zero < 2 && !p.Inference
}

// gradientParts are the bytes of a full set of gradients on this rank.
func (p *holding) gradientParts() (dense, experts int64) {
	for _, q := range p.everything() {
		switch n := p.padded(q) * p.gradientWidth(q); {
		case !q.HasGradient():
		case q.Expert():
			experts += n
		default:
			dense += n
		}
	}
	return dense, experts
}

// optimizer is what the optimizer keeps and takes on this rank. Sharded
// experts are a parameter group of their own, as they lie on other ranks than
// the rest, and groups take their steps one after the other.
func (p *holding) optimizer() (state, temp int64) {
	if p.Offload != "none" {
		return 0, 0
	}
	add := func(ts []optimizers.Tensor, experts bool) {
		for _, same := range optimizers.ByWidth(ts) {
			s, t := optimizers.Of(p.Optimizer).Bytes(same, p.workspace(), p.MasterWeights, p.wideGradients())
			state += p.share(s, 1, experts)
			temp = max(temp, p.share(t, 1, experts))
		}
	}
	ts := p.unevenTensors(p.optTensors(p.everything()))
	if p.EP > 1 && p.shards(true) != p.shards(false) && (p.Zero > 0 || p.FSDP != "") {
		add(slices.DeleteFunc(slices.Clone(ts), func(t optimizers.Tensor) bool { return !t.Expert }), true)
		ts = slices.DeleteFunc(ts, func(t optimizers.Tensor) bool { return t.Expert })
	}
	add(ts, false)
	if p.deepspeed() && p.Zero == 3 { // it steps with one sub-group after the other
		temp = int64(float64(temp) * min(1, float64(p.subGroup())/float64(p.ownTrained())))
	}
	return state, temp
}

// train fills in the phases of training.
func (p *plan) train(b *Budget) {
	state, temp := p.optimizer()
	held := p.gradients()
	kept := p.KeepGradients || p.zeroedLate() || p.Accumulate > 1 && p.moved == nil
	bucket, gathered := p.buckets()
	early := optimizers.Of(p.Optimizer).Early
	p.logging = p.Reserve == 0
	r := p.simulate(kept, 0)
	defer r.M.Done()
	if p.logging {
		b.Reserved = p.reserved(r)
	}
	p.logging = false
	steady := r.M.Peaks
	cold := steady
	if (p.KeepGradients || p.zeroedLate()) && p.Accumulate == 1 {
		cold = p.simulate(false, 0).M.Peaks
	}
	rest := newCategories(map[Category]int64{OptimizerState: state, Communication: bucket + gathered,
		Gradients: p.gradientsAhead()})
	coldRest := newCategories(map[Category]int64{Communication: bucket + gathered, Gradients: p.gradientsAhead()})
	if early {
		coldRest[OptimizerState] = state
	}
	add := func(ph Phase, peak autograd.Instant, end int64, extra Categories) {
		c := peak.Cats
		for i := range c {
			c[i] += extra[i]
		}
		b.Phases = append(b.Phases, PhaseBytes{Phase: ph, Peak: c.Sum(), End: end, Categories: c})
	}
	load := r.ends[Load]
	extra := rest.Sum()
	add(Load, load, load.Bytes, Categories{})
	if steady[Loss].Bytes == 0 { // a pipeline's stage that hands its result on
		steady[Loss] = r.ends[Forward]
	}
	for _, ph := range []Phase{Forward, Loss, Backward} {
		add(ph, steady[ph], r.ends[ph].Bytes+extra, rest)
	}
	step := load.Cats
	step[Gradients] = held
	step[OptimizerState] = state
	step[Communication] += bucket
	step[Temporary] += temp
	step[Logits] += p.lastOutputs()
	after := step.Sum() - temp
	if !p.KeepGradients && !p.zeroedLate() {
		after -= held
	}
	whole := autograd.Instant{Bytes: step.Sum(), Cats: step}
	add(FirstOptimizer, whole, after, Categories{})
	add(Optimizer, whole, after, Categories{})
	b.FirstStep = step.Sum()
	for _, ph := range []Phase{Forward, Loss, Backward} {
		b.FirstStep = max(b.FirstStep, cold[ph].Bytes+coldRest.Sum())
	}
	b.WeightsBytes = load.Cats[Weights]
	b.Host = r.M.Most + hostBytes(p)
	b.peak()
}

// simulate runs a step, with gradients already there when kept, while the last step's graph still holds some bytes.
func (p *plan) simulate(kept bool, before int64) *run {
	r := newRun(p)
	r.last = kept || !p.unsynced()
	switch {
	case kept && p.unsynced():
		r.sumsBefore()
	case p.gradientsAhead() > 0 || p.gradientsGo(): // they are there from the start, or in the host's memory
	case kept:
		for _, q := range append(slices.Clone(p.model.Params), p.adapters...) {
			if q.Trainable {
				r.M.Held[q] = r.M.Alloc(p.share(p.keptBytes(q), 2, q.Expert()), Gradients)
			}
		}
	}
	if kept && p.gathersLate() {
		r.ranks.openBucket()
	}
	r.M.Peaks[Forward] = autograd.Instant{}
	r.besideSteps()
	if r.M.Log != nil {
		r.loaded = len(*r.M.Log)
	}
	if p.keepsPackedInputs() && before == 0 {
		r.trainStep()
		before = r.hoarded()
		r.M.Done()
		return p.simulate(kept, before)
	}
	r.before = r.M.Alloc(before, Activations)
	r.old = r.M.Alloc(p.lastOutputs(), Logits)
	r.trainStep()
	return r
}

func newCategories(m map[Category]int64) Categories {
	var c Categories
	for k, v := range m {
		c[k] = v
	}
	return c
}

// peak finds the steady step's peak.
func (b *Budget) peak() {
	b.PeakBytes = 0
	for _, ph := range b.Phases {
		if ph.Phase == Load && len(b.Phases) > 1 && !b.Setting.Inference || ph.Phase == FirstOptimizer {
			continue
		}
		if ph.Peak > b.PeakBytes {
			b.PeakBytes, b.PeakPhase, b.Categories = ph.Peak, ph.Phase, ph.Categories
		}
	}
}

// stage is the part of the model on one pipeline rank.
func (p *plan) stage(blocks []*network.Block, first, last bool) *plan {
	q := *p
	q.model = p.model.Stage(blocks, first, last, p.PP)
	return &q
}

// told notes what there is to be told.
func (b *Budget) told(text string) {
	if text != "" {
		b.Notes = append(b.Notes, text)
	}
}

func (b *Budget) note(format string, args ...any) {
	b.Notes = append(b.Notes, fmt.Sprintf(format, args...))
}
