package budget

// What sharding over data-parallel ranks does to a step: ZeRO and FSDP keep a
// part of each tensor and gather the whole one for the block that runs.

// sharded says whether parameters themselves are split over the ranks.
func (p *plan) sharded() bool { return (p.Zero == 3 || p.FSDP != "") && p.dp > 1 }

// shards is over how many ranks: all of them, or the GPUs of one node. Experts
// are on few of these already: theirs are the ranks that have the same ones.
func (p *plan) shards(experts bool) int64 {
	n := p.dp
	if p.FSDP == "hybrid" {
		n = min(p.dp, 8)
	}
	if experts && p.EP > 1 {
		n = max(n*p.expertDP/p.dp, 1)
	}
	return n
}

// gathered runs a block with its parameters gathered: the flat buffer of the
// all-gather, the parameters copied out of it, and the next block's buffer
// that is already on its way. The backward does the same again.
func (r *run) gathered(b *block, f func() *value) *value {
	if !r.p.sharded() && r.p.Offload != "params" {
		return f()
	}
	m := r.m
	g := r.p.groupBytes(b)
	s := m.alloc(3*g, Communication)
	y := f()
	m.release(s)
	if m.grad && !m.replay.discard && y.from != nil {
		in := *y
		m.record([]*value{y}, []*value{&in}, nil, func(m *machine, gr []*storage) []*storage {
			m.pulse(4*g, Communication) // gathered again, beside the gradients to be reduced
			return []*storage{m.keep(gr[0])}
		})
	}
	return y
}

// groupBytes are a block's parameters in the type they are gathered in.
func (p *plan) groupBytes(b *block) int64 {
	var n int64
	for _, l := range b.linears() {
		n += l.weight.Elements()
		if l.bias != nil {
			n += l.bias.Elements()
		}
	}
	if x, ok := b.ff.(*experts); ok && !p.expertsWhole() {
		n += x.gateUp.Elements() + x.down.Elements()
	}
	return n * p.width
}

// expertsWhole says whether a rank computes with its experts as they lie there:
// no other has a part of them, and they need no conversion.
func (p *plan) expertsWhole() bool {
	return p.shards(true) == 1 && p.kept == p.width && p.Offload != "params"
}

// fetched runs f with weights outside the blocks on the GPU, which otherwise
// keeps none of them: in host memory nothing is gathered ahead of its use, as
// sharded ones are. A weight that is trained takes as much again in backward,
// where product puts it beside its gradient.
func (r *run) fetched(bytes int64, product *parameter, f func() *value) *value {
	if r.p.Offload != "params" || r.p.sharded() {
		return f()
	}
	m := r.m
	s := m.alloc(bytes, Communication)
	y := f()
	m.release(s)
	if product != nil && m.grad && !m.replay.discard && y.from != nil {
		if product.trainable {
			bytes *= 2
		}
		in := *y
		m.record([]*value{y}, []*value{&in}, nil, func(m *machine, gr []*storage) []*storage {
			m.pulse(bytes, Communication)
			return []*storage{m.keep(gr[0])}
		})
	}
	return y
}

// tableBytes are the tables that a stack's embeddings are looked up in, and
// headBytes the head's matrices.
func (p *plan) tableBytes(mod *model) int64 {
	return p.bytesOf(mod.embed, mod.position, mod.types)
}

func (p *plan) headBytes() int64 {
	mod := p.model
	if mod.head == nil {
		return 0
	}
	n := p.bytesOf(mod.head.weight, mod.head.bias)
	for _, part := range mod.headParts {
		if part.lin != nil {
			n += p.bytesOf(part.lin.weight, part.lin.bias)
		}
	}
	return n
}

// bytesOf are parameters in the type that the layers see.
func (p *plan) bytesOf(qs ...*parameter) (n int64) {
	for _, q := range qs {
		if q != nil {
			n += q.Elements() * p.wide
		}
	}
	return n
}

// arriving is what decoding has on the GPU of weights that are not kept there:
// of sharded ones what stays gathered and a block, of those in host memory
// whatever is the largest.
func (p *plan) arriving() int64 {
	var block int64
	for _, b := range p.model.blocks {
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

// rootBytes are the parameters outside the blocks, which stay gathered from
// the forward to the end of the backward.
func (p *plan) rootBytes() int64 {
	if !p.sharded() {
		return 0
	}
	var n int64
	for _, q := range p.model.params {
		if q.Role == RoleEmbedding || q.Role == RoleHead || q.Role == RolePosition {
			n += q.Elements()
		}
	}
	return n * p.width
}

// reduceGradient hands a finished gradient to the ranks: with ZeRO 2 and 3
// and with FSDP each keeps its part only.
func (p *plan) reduceGradient(m *machine, q *parameter, a *pending) bool {
	if p == nil || p.dp < 2 || !(p.sharded() || p.Zero >= 2) {
		return false
	}
	n := p.shards(q.expert())
	part := (p.keptBytes(q) + n - 1) / n
	if m.held[q] == nil {
		m.held[q] = m.alloc(part, Gradients)
	}
	if n > 1 {
		m.pulse(a.st.bytes, Communication)
	}
	m.release(a.st)
	return true
}

// buckets are the communication buffers that live for the whole run: DDP's
// flat copy of all gradients, or DeepSpeed's reduce and gather buckets of
// 5e8 elements. Experts that no other rank has are in none: nothing is added
// to their gradients.
func (p *plan) buckets() int64 {
	gradients, experts := p.gradientParts()
	if p.expertDP > 1 {
		gradients += experts
	}
	switch {
	case p.dp < 2 || p.FSDP != "":
		return 0
	case p.Zero == 0:
		return gradients
	default:
		return min(2*5e8*p.width, 2*gradients)
	}
}

// share is this rank's part of n bytes, of experts or of the rest.
func (p *plan) share(n int64, from int, experts bool) int64 {
	if p.Zero >= from && p.dp > 1 || p.FSDP != "" && p.dp > 1 {
		k := p.shards(experts)
		return (n + k - 1) / k
	}
	return n
}

// recomputed checkpoints the middle of attention: scores are made again in
// backward, from q, k and v.
func recomputed(m *machine, q, k, v *value, f func() *value) *value {
	join := m.cat(q, k, v)
	m.release(join.st)
	join.st = m.alloc(0, Temporary)
	y := m.checkpoint(join, func(in *value) *value {
		old := [3]value{*q, *k, *v}
		for _, x := range []*value{q, k, v} {
			x.from, x.slot, x.leaf = in.from, in.slot, in.leaf
		}
		z := f()
		*q, *k, *v = old[0], old[1], old[2]
		return z
	})
	for _, x := range []*value{q, k, v} {
		m.keep(x.st)
		m.onTape(x.st)
	}
	m.drop(join)
	return y
}
