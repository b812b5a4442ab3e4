package budget

import "slices"

// checkpoint runs f without a graph and keeps its input and arguments;
// backward runs f again.
func (m *Machine) checkpoint(x *value, f func(*value) *value, args ...*storage) *value {
	in := m.again(x)
	start := &node{grads: make([]gradient, 1)}
	if in.needsGrad() {
		in.from, in.slot, in.leaf = start, 0, nil
	}
	op := m.replay.op
	m.replay = replay{discard: true, op: op}
	y := f(in)
	gathered := m.replay.gathered
	until, keeps, tail := m.replay.last, m.replay.outputs, m.replay.tail
	defer m.releaseAll(gathered)
	m.replay = replay{}
	if until == 0 || y.from == start {
		tail = nil
	}
	end, slot := y.from, y.slot
	if m.pass.Compiles { // what backward doesn't need isn't kept, though the policy says so
		keeps = slices.DeleteFunc(keeps, func(o output) bool {
			if o.at >= until {
				m.release(o.st)
			}
			return o.at >= until
		})
	}
	m.drop(in)
	y.from, y.leaf = nil, nil
	mixed := m.mixed
	keep := *x
	if m.pass.InputsLeave && m.phase == Forward {
		m.stash = stashUnsloth
		defer func() { m.stash = 0 }()
	}
	saved := append(append(slices.Clip(args), x.st), gathered...)
	m.record([]*value{y}, []*value{x}, saved, func(g []*storage) []*storage {
		entry := &node{grads: make([]gradient, 1)}
		var early []arriving
		if len(tail) > 0 && end == tail[len(tail)-1] {
			end.grads[slot], g[0] = gradient{g[0], false}, nil
			early = m.runTail(tail)
			if st := start.grads[0].st; st != nil {
				entry.grads[0], start.grads[0] = start.grads[0], gradient{}
			}
		}
		was := m.mixed
		m.mixed = mixed
		again := &value{st: m.keep(keep.st), n: keep.n, e: keep.e, byHead: keep.byHead}
		catch := &caught{}
		entry.run = func(g []*storage) []*storage {
			catch.st = m.keep(g[0])
			return nil
		}
		from := len(m.tape)
		m.tape = append(m.tape, entry)
		again.from = entry
		m.replay = replay{until: until, op: op, outputs: keeps, early: early}
		z := f(again)
		left := m.replay.outputs
		m.replay = replay{}
		m.drop(again)
		m.leaveAutocast()
		m.mixed = was
		if z.from != nil && g[0] != nil {
			z.from.grads[z.slot], g[0] = gradient{g[0], false}, nil // it goes with the part's last operation
		}
		m.drop(z)
		m.backward(from)
		for _, o := range left {
			m.release(o.st)
		}
		return []*storage{catch.st}
	})
	return y
}

// arriving is a gradient on its way to a node of a checkpointed function.
type arriving struct {
	place, slot int
	g           gradient
}

// trail keeps the nodes after the last one that saved something: PyTorch runs a function again when
// backward first asks for a saved tensor (torch/utils/checkpoint.py, unpack_hook), and theirs comes before that.
func (m *Machine) trail(nd *node, ins []*value, saved []*storage) {
	p := &m.replay
	p.nodes++
	nd.place = p.nodes
	if m.compiled || slices.ContainsFunc(saved, func(s *storage) bool { return s != nil }) ||
		slices.ContainsFunc(ins, func(v *value) bool { return v.needsGrad() && v.from == nil }) {
		p.tail = p.tail[:0]
		return
	}
	nd.in = m.slabs.ins.take(len(ins))
	for i, v := range ins {
		if v.needsGrad() {
			nd.in[i] = v.edge()
		}
	}
	p.tail = append(p.tail, nd)
}

// runTail is backward of these nodes. What they give to those before them waits for the second run.
func (m *Machine) runTail(tail []*node) (early []arriving) {
	var out []edge
	for _, nd := range slices.Backward(tail) {
		out = append(out, nd.in...)
		m.step(nd)
	}
	for _, e := range out {
		if e.to == nil || e.to.place == 0 || e.to.place >= tail[0].place || e.to.grads[e.slot].st == nil {
			continue
		}
		early = append(early, arriving{e.to.place, e.slot, e.to.grads[e.slot]})
		e.to.grads[e.slot] = gradient{}
	}
	return early
}

// arrive gives a node of the second run what its like of the first one was given.
func (p *replay) arrive(nd *node) {
	p.nodes++
	for i, a := range p.early {
		if a.place == p.nodes {
			nd.grads[a.slot], p.early[i].place = a.g, 0
		}
	}
}

// output is a result that a policy keeps from a checkpointed function's first run for its
// second.
type output struct {
	st *storage
	at int64 // which result it is
}

// kept makes a result of n elements that torchtitan's policy keeps, as PyTorch's examples
// have it, too: of attention, and of every second product.
func (m *Machine) kept(n, e int64, product bool) *value {
	p := &m.replay
	if !p.op || !p.discard && p.until == 0 {
		return m.tensor(n, e)
	}
	if product {
		if p.products++; p.products%2 == 0 {
			return m.tensor(n, e)
		}
	}
	if p.discard {
		y := m.tensor(n, e)
		m.keep(y.st)
		m.become(y.st, Activations)
		p.outputs = append(p.outputs, output{y.st, p.tensors})
		return y
	}
	p.tensors++
	if p.tensors >= p.until {
		p.dead = true
	}
	if len(p.outputs) == 0 {
		return m.slabs.values.put(value{st: m.alloc(n*e, Temporary), n: n, e: e})
	}
	y := m.slabs.values.put(value{st: p.outputs[0].st, n: n, e: e})
	p.outputs = p.outputs[1:]
	return y
}

// entry makes x the start of a graph whose gradient nobody keeps.
func (m *Machine) entry(x *value) {
	x.from = &node{grads: make([]gradient, 1), run: func([]*storage) []*storage { return nil }}
	x.slot, x.leaf = 0, nil
	m.tape = append(m.tape, x.from)
}

// caught is the gradient that reaches a checkpoint's input.
type caught struct{ st *storage }
