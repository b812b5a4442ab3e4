package budget

import (
	"github.com/vramscope/vramscope/budget/autograd"
	"github.com/vramscope/vramscope/budget/losses"
	"github.com/vramscope/vramscope/budget/modelfile"
	"github.com/vramscope/vramscope/budget/network"
	"github.com/vramscope/vramscope/budget/schedule"
)

// newRun loads the weights.
func newRun(p *plan) *run {
	m := &network.Machine{Modes: p.modes()}
	all := &ranks{Machine: m, p: p}
	m.Machine = autograd.New(p.width, p.wide, p.pass(all))
	if p.logging {
		m.Log = &[]request{}
	}
	m.Cublas, m.Cublas1 = p.workspace(), mib
	r := all.run(p)
	r.last = true
	m.Phase = Load
	if p.chunked != nil {
		for _, c := range p.chunked {
			x := all.run(c)
			x.load()
			r.parts = append(r.parts, x)
		}
		r.received()
	} else {
		r.load()
	}
	if p.torchBefore(15) { // until 2.14 the first product's workspace stays
		m.Alloc(m.Cublas, Workspace)
		m.Cublas, m.Cublas1 = 0, 0
	}
	r.end(Load)
	return r
}

// run is one of a model on these ranks.
func (m *ranks) run(p *plan) *run {
	r := &run{Step: network.Step{M: m.Machine, Model: p.model}, p: p, ranks: m}
	r.Around, r.loss = r, losses.Loss{Step: &r.Step, How: losses.How{Kind: p.Loss,
		InOne: p.compiledLoss() && p.TP == 1, HandsOut: p.compiledWhole(), Wide: p.Trainer && p.mixed,
		Parts: p.TP > 1 && !p.wholeLogits(), InPlace: p.megatron(), Copies: p.profile.CastsLogits && p.profile.LossInside}}
	return r
}

// modes are what the setting comes down to for the network.
func (p *plan) modes() network.Modes {
	o := network.Modes{Layout: p.profile.Layout, Eager: p.eager(), Flash: p.flash(), Padding: p.Padding,
		MixerKernels: p.mixerKernels(), Liger: p.Liger && !p.Inference,
		ByRow: p.Float8Recipe == "rowwise", WholeGraph: p.compiledWhole(),
		WholeLogits: p.wholeLogits(), LastLogit: p.Inference && p.LastLogit, FillsCache: p.UseCache, SharesDropout: p.fabric(),
		FusesAdapters: p.fusesAdapters(),
		Dropout:       p.LoRADropout, Cache: p.Cache, ContextRanks: p.CP, PassesRound: p.megatron() || p.Inference,
		// PyTorch 2.15, which compiles the ring as well, makes nothing twice that was sent
		KeepsKeys:     p.Compile && p.Torch != "" && !p.torchBefore(15) && !p.megatron() && !p.eager(),
		Checkpointing: p.Checkpointing, Recomputes: p.Recomputes(), EntersInputs: p.Adapts() && p.Recomputes(),
		Offloads: p.ActivationOffload, Sequence: p.Sequence, Target: p.decoderTokens(), Resolution: p.Resolution,
		Encodes: encodesHere(p), WidePixels: p.widePixels()}
	o.Nth, _ = p.EveryNth()
	if p.KV != "" {
		o.CacheBytes = p.kvBytes
	}
	return o
}

// writesScores says whether attention's scores are there at once.
func (p *plan) writesScores(a *network.Attention) bool {
	o := p.modes()
	return a.WritesScores(&o)
}

// pass is what the setting comes down to for one pass.
func (p *plan) pass(m *ranks) autograd.Pass {
	v := autograd.Pass{Batch: p.Batch, KeepsPart: p.megatron(), Inference: p.Inference, Compiles: p.Compile,
		CUDAGraphs: p.CUDAGraphs, InputsLeave: p.Checkpointing == "offload", NoGraph: p.profile.Reentrant,
		Mixed8: p.inMixedInt8(), Hoards: p.keepsPackedInputs(), TwoCopies: p.fabric() && p.Precision != "fp16",
		LooksUp: p.profile.Torchao && p.Precision == "int4", Blocks8: p.MXFP8, Gathers8: p.gathersEight(),
		Gradient2: p.Float8Recipe == wideGradient,
		Reduce:    func(q *parameter, s *storage) bool { return p.reduceGradient(m, q, s) }}
	if p.SequenceParallel {
		v.TokenRanks = p.TP
	}
	if p.compiledWhole() && p.model.Tied {
		v.Tied = p.model.Embed
	}
	return v
}

// received makes what a pipeline rank has for micro-batches beside those that are simulated:
// in old versions the buffers that it receives into, and what its last stage hands out in
// the end, with what was received for it.
func (r *run) received() {
	p := r.p
	for i, c := range r.parts {
		n := schedule.MicroBatches(p.Setting)
		if p.buffersAhead() {
			if c.Model.Received {
				r.M.Alloc(n*c.boundary(), Communication)
			}
			if c.Model.Sends { // gradients, one of which the simulated step makes itself
				r.M.Alloc((n-1)*c.boundary(), Communication)
			}
		}
		for _, v := range p.moved {
			if v.Chunk == int64(i) && !v.Back {
				n--
			}
		}
		if !c.Model.Sends && p.collectsOutputs() {
			for range n { // as many storages as there are micro-batches
				r.M.Alloc(c.collected(), Logits)
			}
		}
		r.M.Alloc(max(n, 0)*int64(c.keptBoundaries())*c.boundary(), Communication)
	}
}

// buffersAhead says whether a pipeline's buffers are there before its micro-batches are, as
// torch.distributed.pipelining made them until 2.14; since 2.15 each is made when its message
// comes (stage.py). They are taken as there where no version is named. Megatron has its own schedules.
func (p *setup) buffersAhead() bool {
	return p.PP > 1 && !p.megatron() && (p.Torch == "" || p.torchBefore(15))
}

// collectsOutputs says whether the last stage's results stay until the step is over, and what
// was received for them with their graph: PyTorch's schedules merge them, Megatron's don't.
func (p *setup) collectsOutputs() bool { return p.PP > 1 && !p.megatron() }

// collected is what stays of each micro-batch's result.
func (r *run) collected() int64 {
	p := r.p
	if !r.Model.LanguageModel() || p.Loss == "chunked" || p.Loss == "fused" {
		return 0
	}
	return p.Batch * p.Sequence * r.Model.Head.Out * p.width
}

// load puts the weights on the device.
func (r *run) load() {
	m, p := r.M, r.p
	flat := r.flatten()
	beside := p.Copies
	if !p.Adapts() { // else the model is its own reference, without them
		beside += p.References
	}
	for _, q := range p.model.Params {
		n := q.Elements()
		stored := p.stored(q)
		alone := stored
		if flat { // it is there as a part of its unit
			alone = p.besideShards(q)
		}
		q.Val = &value{Mem: m.Alloc(alone, Weights), N: n, Width: p.seen(q), Leaf: q}
		q.Packed = p.quantised(q) || p.packing().Has(q) && p.packing().Direct == ""
		if q.Copied {
			m.Alloc(stored, Weights)
		}
		for range beside {
			m.Alloc(stored, Weights)
		}
	}
	for _, q := range p.adapters {
		e := p.adapterWidth()
		own := q.Elements() * e
		if p.FSDP != "" || q.Elements() > staysWhole {
			own = p.ownPart(own, false)
		}
		if flat {
			own = 0
		}
		q.Val = &value{Mem: m.Alloc(own, Weights), N: q.Elements(), Width: e, Leaf: q}
	}
	for range p.References {
		r.frozen = append(r.frozen, keptGathered(r))
	}
	loadBeside(r)
	m.Alloc(int64(p.model.Buffers)+int64(p.model.WideBuffers)*p.wide+p.rotaryCaches(), Weights)
	if e := p.model.Embed; p.stableEmbedding() && e != nil {
		m.Alloc(e.Val.Bytes(), Weights)
		m.Alloc(e.Val.Bytes(), Gradients)
	}
}

// staysWhole is up to how many elements ZeRO 3 keeps a parameter whole (stage3_param_persistence_threshold).
const staysWhole = 100_000

// adapterWidth is the width of LoRA weights.
func (p *holding) adapterWidth() int64 {
	if p.wideAdapters() {
		return 4
	}
	return p.kept
}

// wideAdapters says whether adapters are float32. PEFT gives them their layer's type only where
// that is a floating-point one.
func (p *holding) wideAdapters() bool {
	return p.mixed && !(p.LoRADtype == "model" && p.frozenPacked()) || p.LoRADtype == "fp32" || p.inMixedInt8()
}

// keptBytes is a parameter, or its gradient, between steps.
func (p *holding) keptBytes(q *parameter) int64 {
	if p.kept == p.wide && !p.sharded() {
		return q.Val.Bytes()
	}
	return p.padded(q) * p.betweenSteps(q)
}

// widened says whether a weight is float32 beside others of 16 bits: it is trained, and they aren't; or axolotl has made the
// embeddings and the head so, and narrow again for attention or a loss that asks for that (loaders/model.py).
func (p *holding) widened(q *parameter) bool {
	switch {
	case p.kept != 2 || p.sharded():
		return false
	case p.profile.WideEnds && !p.Adapts() && p.FSDP == "" && p.Attention != "flash" && (p.Loss != "fused" || p.Liger):
		return q.Role == network.RoleEmbedding || q.Role == network.RoleHead
	}
	return p.TrainedDtype == "fp32" && q.Trainable && (p.freezes() || p.SaveModules != "")
}

// freezes says whether some of the model's own weights are left as they are.
func (p *setup) freezes() bool { return p.Freeze > 0 || p.Frozen != "" || p.Trained != "" }

// seen is how wide a weight's elements are to its layer.
func (p *holding) seen(q *parameter) int64 {
	if p.widened(q) {
		return 4
	}
	return p.wide
}

// quantised says whether a weight is kept in 8 or 4 bits: the linear layers
// in the blocks are, embeddings, head and norms are not.
func (p *setup) quantised(q *parameter) bool {
	return (p.Precision == "int8" || p.Precision == "int4") && len(q.Shape) > 1 && !q.Copied &&
		q.Role != network.RoleEmbedding && q.Role != network.RoleHead && q.Role != network.RolePosition &&
		q.Role != network.RoleRouter
}

// stored is what a parameter takes on this rank: quantised, sharded, or on
// the CPU.
func (p *holding) stored(q *parameter) int64 {
	b, packed := p.packedBytes(q)
	if !packed {
		b = p.padded(q) * p.kept
	}
	if p.widened(q) {
		b = p.padded(q) * 4
	}
	beside := p.besideShards(q)
	if p.Offload == "params" {
		return beside
	}
	return p.ownPart(b-beside, q.Expert()) + beside
}

// packedBytes are those of a weight that is packed, as its file says or the setting.
func (p *holding) packedBytes(q *parameter) (n int64, packed bool) {
	switch z := p.packing(); {
	case q.Adapter:
		return 0, false
	case z.Has(q):
		return z.BytesOf(q), true
	case p.quantised(q):
		return modelfile.PackedBytes(p.Precision, q.Elements(), p.PlainScales), true
	}
	return 0, false
}

// ownPart is what a rank keeps of n bytes that are a parameter's.
func (p *setup) ownPart(n int64, expert bool) int64 {
	if !p.sharded() {
		return n
	}
	return autograd.Parts(n, p.shards(expert))
}

// besideShards are the scales of a packed weight that is sharded. bitsandbytes has them in a
// state beside the parameter (functional.py, QuantState), which FSDP and ZeRO know nothing of: each rank
// has them whole. torchao's tensors, which torchtune trains beside, are sharded with all that is in them.
func (p *holding) besideShards(q *parameter) int64 {
	n, packed := p.packedBytes(q)
	four := p.Precision == "int4"
	if z := p.packing(); z.Has(q) {
		four = z.Method == "bitsandbytes" && z.Bits == 4
	}
	if !packed || !four || !p.sharded() || p.profile.Torchao {
		return 0
	}
	return n - autograd.Parts(q.Elements(), 2)
}
