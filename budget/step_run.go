package budget

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/budget/autograd"
	"github.com/vramscope/vramscope/budget/losses"
	"github.com/vramscope/vramscope/budget/network"
)

// run holds one simulated run of a model.
type run struct {
	network.Step
	p       *plan
	ranks   *ranks
	loss    losses.Loss
	ends    [numPhases]autograd.Instant
	shards  *sharding  // nil where parameters lie whole
	last    bool       // the next backward is a step's last one
	parts   []*run     // a pipeline rank's pieces, which have its machine
	outputs []*storage // of the last stage, which the schedule hands out in the end
	frozen  []frozen   // what is gathered of models beside it
	before  *storage   // what the last step's graph holds until this step's loss is there
	old     *storage   // the last step's outputs, until this one's are there
	// loaded is how many requests were made before the step.
	loaded int
}

// end notes what is alive at the end of a phase.
func (r *run) end(p Phase) { r.ends[p] = autograd.Instant{Bytes: r.M.Live, Cats: r.M.Cats} }

// forward is a micro-batch that went forward, until its backward.
type forward struct {
	batch        network.Batch
	logits, loss *value
	tape         []*node
	accum        map[*parameter]*autograd.Pending
}

// trainStep is one forward and backward of a micro-batch, or a pipeline rank's step.
func (r *run) trainStep() {
	if r.parts != nil {
		r.runStages()
		return
	}
	r.backward(r.forward())
}

// forward runs the model and the loss.
func (r *run) forward() *forward {
	m, p := r.M, r.p
	m.Tape, m.Accum = nil, map[*parameter]*autograd.Pending{}
	m.Grad = true
	m.Phase = Forward
	f := &forward{batch: r.Inputs()}
	m.Mixed = p.mixed
	defer m.Compile(m.Compile(p.compiledWhole()))
	if r.shards != nil {
		r.shards.last = nil
	}
	if p.sharded() {
		r.unshard(r.groupOf(nil), false)
	}
	h := r.Forward(f.batch)
	if r.Model.Sends {
		f.sent(r, h)
	} else if f.loss = r.lossInPieces(h, f.batch); f.loss == nil {
		h = f.lossOfAll(r, h)
	}
	m.Drop(h) // the model's own name for it, until it returns
	references(r, f.batch)
	m.LeaveAutocast()
	if !r.Model.Sends {
		f.handOut(r)
	}
	m.Release(r.before)
	r.before = nil
	r.end(Loss)
	m.Arrived()
	f.tape, f.accum = m.Tape, m.Accum
	m.Tape, m.Accum = nil, nil
	return f
}

// sent is what a pipeline's stage hands on in the place of a loss.
func (f *forward) sent(r *run, h *value) {
	m := r.M
	r.rootDone(h)
	r.end(Forward)
	f.loss = m.Again(h)
	if r.p.buffersAhead() || r.p.waitsLast() {
		f.logits = m.Again(h)
	} else { // only its place in the graph stays
		m.Drop(f.loss)
		f.loss.Mem = m.Alloc(0, Temporary)
	}
}

// lossInPieces is one that makes the logits itself, some at a time; nil where they are made whole.
func (r *run) lossInPieces(h *value, batch network.Batch) (loss *value) {
	p := r.p
	if r.end(Forward); !r.Model.LanguageModel() {
		return nil
	}
	switch {
	case p.Loss == "chunked":
		if p.profile.OutputsInPieces {
			return r.outputsInPieces(h, batch, cmp.Or(p.OutputPieces, outputPieces))
		}
		if r.rootDone(h); p.profile.OutputsInTiles {
			loss = r.Unit(r.Model.Head.Weight, h, r.loss.InTiles)
			r.lossDone(loss)
			return loss
		}
		loss = r.loss.Chunked(h, batch, r.logits)
	case p.fabric() && p.LoRA > 0 && p.Loss == "cross-entropy":
		loss = r.outputsInPieces(h, batch, autograd.Parts(p.Sequence, litgptPiece))
	case p.Loss == "fused":
		if !p.lossInside() {
			r.rootDone(h)
		}
		var head int64
		if p.Offload == "params" && !p.sharded() {
			head = p.headBytes()
		}
		if loss = r.loss.Fused(h, head); p.lossInside() { // the model's head is at hand until it returns
			r.rootDone(loss)
		}
		r.lossDone(loss)
	}
	return loss
}

// lossOfAll makes the logits, and a loss of them. It gives h back where the model has still a name for it.
func (f *forward) lossOfAll(r *run, h *value) *value {
	m, p := r.M, r.p
	logits := r.ofLabelled(h)
	if p.castsLogits() && logits.Width < 4 {
		logits = m.Replace(logits, m.Cast(logits, 4))
		m.Logit(logits)
	}
	r.rootDone(logits)
	r.end(Forward)
	pieces := p.fabric() && r.Model.LanguageModel()
	if p.Loss == "smoothed" { // by the Trainer, once the model has returned
		m.LeaveAutocast()
	}
	if p.Loss == "smoothed" || pieces || p.ofLogProbs() {
		m.Drop(h)
		h, logits = nil, r.returned(logits)
	}
	if pieces {
		r.forgetOutputs()
		f.loss = r.loss.ByTokens(logits, f.batch)
	} else {
		f.loss = r.loss.Of(logits, f.batch, false)
	}
	r.lossDone(f.loss)
	f.logits = logits
	return h
}

// handOut gives the program the outputs, where these were made whole.
func (f *forward) handOut(r *run) {
	if f.logits != nil {
		f.logits = r.returned(f.logits)
	}
	switch {
	case r.p.collectsOutputs() && f.logits != nil: // the schedule does it
		r.outputs = append(r.outputs, r.M.Keep(f.logits.Mem))
		r.dropOutputs(&f.logits)
	case r.p.DropOutputs:
		r.dropOutputs(&f.logits)
	}
	r.forgetOutputs()
}

// zeroedLate says whether the last step's gradients go between forward and backward.
func (p *setup) zeroedLate() bool {
	return p.ZeroedLate && !p.KeepGradients && p.Accumulate == 1 && p.Zero == 0 && p.FSDP == "" && p.PP == 1
}

// ofLogProbs says whether a trainer compares log-probabilities, which it works out of float32 logits.
func (p *setup) ofLogProbs() bool { return strings.HasPrefix(p.Loss, "log-probs") }

// returned are the outputs as the program gets them: in float32, where Accelerate or the loss converts them, or
// Lightning's Fabric, which does so in every precision (convert_output).
func (r *run) returned(logits *value) *value {
	if !r.p.fabric() && !r.p.ofLogProbs() && (!r.p.Trainer || !r.p.mixed) || logits.Width == 4 {
		return logits
	}
	f := r.M.Cast(logits, 4)
	r.M.Logit(f)
	return r.M.Replace(logits, f)
}

// backward goes back through what went forward.
func (r *run) backward(f *forward) {
	m := r.M
	m.Phase = Backward
	m.Tape, m.Accum = f.tape, f.accum
	r.ranks.shards = r.shards
	if r.p.zeroedLate() {
		m.ReleaseAll(slices.Collect(maps.Values(m.Held)))
		clear(m.Held)
	}
	m.Seed(f.loss)
	m.Backward(0)
	switch {
	case r.p.PP == 1:
		r.finishSharding()
	case r.shards != nil && r.shards.root != nil && !r.last: // the last callback of each backward
		r.reduce(r.shards.root)
	}
	r.ranks.emptyBucket()
	if !r.p.keepsPackedInputs() { // the graph goes with the loss
		m.ReleaseAll(m.Hoard)
		m.Hoard = nil
	}
	r.end(Backward)
	r.dropOutputs(&f.logits)
	m.ReleaseAll(f.batch.All())
}

// hoarded is what a step's graph still holds when it is over.
func (r *run) hoarded() (n int64) {
	seen := map[*storage]bool{}
	for _, s := range r.M.Hoard {
		if !seen[s] {
			n += s.Bytes
		}
		seen[s] = true
	}
	return n
}

// dropOutputs lets the logits and the cache of a forward go.
func (r *run) dropOutputs(logits **value) {
	r.M.Drop(*logits)
	*logits = nil
	r.M.ReleaseAll(r.M.Cached)
	r.M.Cached = nil
}

// decoderTokens is what a decoder beside an encoder is given: a classifier of
// whole sequences reads its input there once more.
func (p *holding) decoderTokens() int64 {
	if p.model.Task == network.TaskClassify || p.model.Task == network.TaskTokens {
		return p.Sequence
	}
	return p.DecoderSeq
}

// rootDone lets what is gathered of the parameters outside blocks go once the model has
// returned y, unless it stays for backward.
func (r *run) rootDone(y *value) {
	if !r.p.sharded() || r.p.ownUnits() && r.p.headStays() { // the head's unit was last, and the model returns with the loss
		return
	}
	g := r.groupOf(nil)
	g.before = r.shards.last
	if head := r.Model.Head; head != nil && r.shards.ends[head.Weight] != nil {
		g.before = r.shards.ends[head.Weight]
	}
	if !g.stays {
		r.reshard(g)
	}
	r.M.Release(r.shards.flat)
	r.shards.flat = nil
	if !r.p.lossInside() {
		r.beforeBackward(y, g)
	}
}

// lossDone is where backward comes to a model first that works its loss out itself.
func (r *run) lossDone(loss *value) {
	switch {
	case r.p.ownUnits() && r.p.headStays():
		r.M.Release(r.shards.flat)
		r.shards.flat = nil
	case !r.p.sharded() || !r.p.lossInside():
	default:
		r.beforeBackward(loss, r.groupOf(nil))
	}
}

// lossInside says whether the loss is among the model's results, as Transformers' is.
func (p *setup) lossInside() bool {
	return p.profile.LossInside && (p.Loss == "default" || p.Loss == "fused") && p.PP == 1
}
