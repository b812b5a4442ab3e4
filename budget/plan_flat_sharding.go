package budget

import (
	"slices"

	"github.com/vramscope/vramscope/budget/autograd"
	"github.com/vramscope/vramscope/budget/network"
	"github.com/vramscope/vramscope/internal/units"
)

// FSDP as it was first (torch/distributed/fsdp/_runtime_utils.py): a unit's parameters are
// views of one flat tensor, which an all-gather fills; autograd joins their gradients to one
// as large, which is widened for its reduction and gone after that.

// flatUnits says whether FSDP is of that kind.
func (p *setup) flatUnits() bool { return p.FSDP != "" && p.FSDPVersion == 1 && p.dp > 1 }

// flatten puts the parameters of each unit on the device in the order that FSDP wraps them, and says whether it did: a rank
// keeps its part of each flat tensor, and the allocator what it took for that.
func (r *run) flatten() bool {
	switch p := r.p; {
	case !p.flatUnits():
		return false
	case p.Offload == "params" && !p.profile.SendsStates: // they never come to the device
		return true
	}
	units := r.wrapped()
	for _, u := range units {
		sizes := make([]int64, len(u))
		for i, q := range u {
			sizes[i] = wholeBytes(r.p, q)
		}
		part := r.M.Flatten(sizes, r.p.shards(false), r.p.profile.SendsStates)
		if r.p.Offload == "params" {
			r.M.Release(part)
		}
	}
	for _, u := range units { // the first forward makes what each is gathered into, for its size (init_flat_param_attributes)
		r.M.Pulse(r.p.gatheredBytes(u), Weights)
	}
	return true
}

// wrapped are the parameters of each unit, in the order that FSDP wraps them.
func (r *run) wrapped() (units [][]*parameter) {
	for _, mod := range r.stacks() {
		for _, b := range mod.Blocks {
			own := slices.Clone(b.Params)
			for _, q := range b.Adapters {
				if r.p.OneUnit {
					own = append(own, q)
				} else {
					units = append(units, []*parameter{q})
				}
			}
			units = append(units, own)
		}
	}
	for _, q := range r.Model.Params {
		if r.p.ownUnit(q) {
			units = append(units, []*parameter{q})
		}
	}
	for _, q := range r.p.adapters {
		if q.Outside && r.p.ownUnits() { // beside a weight with a unit of its own
			units = append(units, []*parameter{q})
		}
	}
	if u := r.outside(); len(u) > 0 {
		units = append(units, u)
	}
	return units
}

// wholeBytes are a parameter's, as it is loaded.
func wholeBytes(p *plan, q *parameter) int64 {
	if b, packed := p.packedBytes(q); packed {
		return b - p.besideShards(q)
	}
	return q.Elements() * p.betweenSteps(q)
}

// reducedWidth is how wide gradients are while they are reduced.
func (p *setup) reducedWidth() int64 {
	switch {
	case p.FSDP == "" || p.ReduceDtype == "":
		if p.FSDP != "" && p.Trainer { // FullyShardedDataParallelPlugin.set_mixed_precision
			return p.width
		}
		return max(p.width, p.kept) // float32 shards are reduced as such
	case p.ReduceDtype == "fp32":
		return 4
	}
	return 2
}

// reducedPart is what this rank gets of n reduced elements, in the type of its shards.
func (r *run) reducedPart(n, e int64, experts bool) *storage {
	m, p := r.M, r.p
	part := m.Alloc(autograd.Parts(n*e, p.shards(experts)), Gradients)
	if e == p.kept || p.FSDP == "" {
		return part
	}
	kept := m.Alloc(autograd.Parts(n*p.kept, p.shards(experts)), Gradients)
	m.Release(part)
	return kept
}

// reduceFlat joins a unit's gradients and hands them to the ranks.
func (r *run) reduceFlat(g *group, e int64) {
	m, p, s := r.M, r.p, r.shards
	mine := s.ready(g)
	if len(mine) == 0 {
		r.reshard(g)
		return
	}
	n := network.Elements(g.params, (*parameter).HasGradient)
	m.Stream = autograd.GatherStream // where the views of the flat tensor were made
	joined := m.Alloc(n*p.width, Gradients)
	m.Stream = autograd.MainStream
	for _, q := range mine {
		m.Release(s.waiting[q])
		delete(s.waiting, q)
	}
	if sum := s.summed[mine[0]]; sum != nil { // added to it
		m.Release(joined)
		joined = sum
		delete(s.summed, mine[0])
	}
	r.reshard(g)
	m.Stream = autograd.ReduceStream
	wide := m.AllocIf(e != p.width, n*e, Communication)
	part := r.reducedPart(n, e, mine[0].Expert())
	m.Release(wide)
	m.Release(joined)
	switch {
	case p.Offload == "params": // its copy in host memory is there at once, but only the last callback lets it go
		s.offloaded = append(s.offloaded, part)
	case m.Held[mine[0]] != nil || p.gradientsGo():
		m.Release(part)
	default:
		m.Held[mine[0]] = part
	}
	m.Stream = autograd.MainStream
	if p.OptimizerInBackward {
		m.Pulse(p.share(p.optimizerTemp(mine), 1, false), Temporary)
	}
}

// unitsAhead is how many units FSDP1 lets the host be ahead of the GPU (_limiter_utils.py).
const unitsAhead = 2

// noteFlatUnits says what depends on how far the host is ahead of the GPU: memory that other
// streams use is free again when the GPU is through with it.
func (p *plan) noteFlatUnits(b *Budget) {
	if !p.flatUnits() || p.Inference || p.HostAhead && !p.FreeGathers {
		return
	}
	var one, all int64
	for _, l := range p.model.Blocks {
		n := p.gatheredBytes(l.Params)
		if network.Trains(l.Params) { // its gradients, and these joined
			n *= 3
		}
		one, all = max(one, n), all+n
	}
	if p.FreeGathers {
		b.note("without a limit for all-gathers the host may be a whole step ahead of the GPU, which is not in the figures: it "+
			"may take up to about %s more, the gathered parameters and gradients of all units", units.Bytes(all))
		return
	}
	b.note("FSDP1's memory is free again when the GPU is through with it: where the host is far ahead, up to about %s more "+
		"than said may be taken, for %d units", units.Bytes(unitsAhead*one), unitsAhead)
}
