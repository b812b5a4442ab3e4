package budget

import (
	"math"

	"github.com/vramscope/vramscope/budget/autograd"
	"github.com/vramscope/vramscope/budget/network"
	"github.com/vramscope/vramscope/budget/optimizers"
)

// optTensors are those of some parameters that are trained.
func (p *holding) optTensors(qs []*parameter) []optimizers.Tensor {
	var ps []optimizers.Tensor
	// Transformers' Trainer has bitsandbytes keep embeddings' state in 32 bits; loops of one's own with Accelerate don't
	wide := p.Trainer && !p.Unsaid && p.profile.Accelerates
	for _, q := range qs {
		if !q.Trainable {
			continue
		}
		t := optimizers.Tensor{N: p.padded(q), Width: p.betweenSteps(q), Expert: q.Expert(),
			Unpacked: wide && (q.Role == network.RoleEmbedding || q.Role == network.RolePosition)}
		if k := len(q.Shape); k > 1 && !(q.Shape[k-1] == 1 && k == 2) {
			t.Cols = q.Shape[k-1]
			t.Rows = q.Shape[k-2]
			t.Hidden = q.Role != network.RoleEmbedding && q.Role != network.RoleHead && q.Role != network.RolePosition
		}
		ps = append(ps, t)
	}
	return ps
}

// reserved is what the caching allocator takes from the device for a step's requests, in bytes.
func (p *plan) reserved(r *run) int64 {
	if p.addsUp() { // a step's first micro-batch makes the gradients among its activations, where they stay
		r = p.simulate(false, 0)
		defer r.M.Done()
		r.last = true
		r.trainStep()
	}
	o := autograd.Reserve{Expandable: p.Allocator == "expandable", Early: optimizers.Of(p.Optimizer).Early || p.deepspeed(),
		Behind: p.flatUnits() && p.HostAhead, Ahead: unitsAhead}
	switch {
	case p.FreeGathers:
		o.Ahead = math.MaxInt
	case p.Adapts() && !p.OneUnit: // the small ones count, too: where a block's have been awaited, so has the block before it
		o.Ahead = 1
	}
	if o.State, o.Temp = p.optimizerTensors(); r.M.Live > 1<<50 { // a pebibyte: nothing has as many addresses
		return 0
	}
	return o.Reserved((*r.M.Log)[:r.loaded], (*r.M.Log)[r.loaded:])
}

// addsUp says whether gradients of a step's micro-batches add up where the first one made them.
func (p *plan) addsUp() bool {
	return p.Accumulate > 1 && p.moved == nil && p.PP == 1 && p.Zero == 0 && !p.KeepGradients && !p.wideGradients() &&
		!p.gathersLate() && !p.flatUnits() && !p.keepsPackedInputs()
}

// optimizerTensors are the sizes of what the optimizer keeps, and of what a step takes.
func (p *holding) optimizerTensors() (state, temp []int64) {
	if p.Offload != "none" || p.Optimizer == "none" {
		return nil, nil
	}
	o := optimizers.Of(p.Optimizer)
	if p.deepspeed() { // which has all of a rank's parameters in one flat tensor, under ZeRO 3 a sub-group in each
		all, x := p.optimizer()
		n := 4 * p.ownTrained()
		if p.Zero == 3 {
			n = min(n, 4*p.subGroup())
		}
		return autograd.Pieces(all, n), autograd.Pieces(x, n)
	}
	ts := p.unevenTensors(p.optTensors(p.everything()))
	for _, t := range ts {
		s, x := o.Bytes([]optimizers.Tensor{t}, p.workspace(), p.MasterWeights, p.wideGradients())
		s, n := p.share(s, 1, t.Expert), o.Kept()
		for range n {
			state = append(state, s/n)
		}
		if o.ByTensor() {
			temp = append(temp, p.share(x, 1, t.Expert))
		}
	}
	if !o.ByTensor() {
		_, x := p.optimizer()
		temp = append(temp, x)
	}
	return state, temp
}
