package budget

import "github.com/vramscope/vramscope/budget/network"

// What lies in host memory, and weights there that come to the GPU where they are used.

// hostBytes are this rank's in host memory: with the optimizer its state, under DeepSpeed and with whatever is sharded its
// gradients, too, and with the parameters these.
func hostBytes(p *plan) (n int64) {
	if p.Offload != "optimizer" && p.Offload != "params" || p.Inference {
		return 0
	}
	here := *p // the same without an offload
	here.Offload = "none"
	n, _ = here.optimizer()
	if p.Offload == "params" {
		for _, q := range p.everything() {
			if q.Adapter {
				n += here.ownPart(q.Elements()*p.adapterWidth(), false)
			} else {
				n += here.stored(q)
			}
		}
	}
	if !p.OptimizerInBackward && p.gradientsGo() {
		n += here.gradients()
	}
	return n
}

// fetched runs f with weights outside the blocks on the GPU, which otherwise
// keeps none of them: in host memory nothing is gathered ahead of its use, as
// sharded ones are. A weight that is trained takes as much again in backward,
// where product puts it beside its gradient.
func (r *run) fetched(bytes int64, product *parameter, f func() *value) *value {
	if r.p.Offload != "params" || r.p.sharded() {
		return f()
	}
	m := r.M
	s := m.Alloc(bytes, Communication)
	y := f()
	m.Release(s)
	if product != nil && !m.Replay.Discard {
		if product.Trainable {
			bytes *= 2
		}
		hookResult(m, y, func() { m.Pulse(bytes, Communication) })
	}
	return y
}

// Table looks up what a stack begins with.
func (r *run) Table(mod *network.Model, f func() *value) *value {
	return r.fetched(r.p.tableBytes(mod), nil, f)
}

// tableBytes are the tables that a stack's embeddings are looked up in, and
// headBytes the head's matrices.
func (p *setup) tableBytes(mod *network.Model) int64 {
	return p.bytesOf(mod.LookedUp()...)
}

func (p *holding) headBytes() int64 { return p.bytesOf(p.model.HeadWeights()...) }

// bytesOf are parameters in the type that the layers see.
func (p *setup) bytesOf(qs ...*parameter) int64 {
	return p.wide * network.Elements(qs, func(q *parameter) bool { return q != nil })
}

// arriving is what decoding has on the GPU of weights that are not kept there:
// of sharded ones what stays gathered and a block, of those in host memory
// whatever is the largest.
func (p *holding) arriving() int64 {
	var block int64
	for _, b := range p.model.Blocks {
		block = max(block, 3*p.groupBytes(b))
	}
	switch {
	case p.sharded():
		return p.rootBytes() + block
	case p.Offload == "params":
		return max(block, p.tableBytes(p.model), p.headBytes())
	}
	return 0
}
