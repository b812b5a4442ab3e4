package budget

import "slices"

// checkpoint runs f without a graph and keeps its input and arguments;
// backward runs f again.
func (m *machine) checkpoint(x *value, f func(*value) *value, args ...*storage) *value {
	in := m.again(x)
	op := m.replay.op
	m.replay = replay{discard: true, op: op}
	y := f(in)
	until, keeps := m.replay.last, m.replay.outputs
	m.replay = replay{}
	if m.opts.Compile { // what backward doesn't need isn't kept, though the policy says so
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
	if m.opts.Checkpointing == "offload" && m.phase == Forward {
		m.stash = stashUnsloth
		defer func() { m.stash = 0 }()
	}
	m.record([]*value{y}, []*value{x}, append(slices.Clip(args), x.st), func(m *machine, g []*storage) []*storage {
		was := m.mixed
		m.mixed = mixed
		again := &value{st: m.keep(keep.st), n: keep.n, e: keep.e, byHead: keep.byHead}
		catch := &caught{}
		entry := &node{grads: make([]gradient, 1), run: func(m *machine, g []*storage) []*storage {
			catch.st = m.keep(g[0])
			return nil
		}}
		from := len(m.tape)
		m.tape = append(m.tape, entry)
		again.from = entry
		m.replay = replay{until: until, op: op, outputs: keeps}
		z := f(again)
		left := m.replay.outputs
		m.replay = replay{}
		m.drop(again)
		m.leaveAutocast()
		m.mixed = was
		if z.from != nil {
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

// output is a result that a policy keeps from a checkpointed function's first run for its
// second.
type output struct {
	st *storage
	at int64 // which result it is
}

// kept makes a result of n elements that torchtitan's policy keeps, as PyTorch's examples
// have it, too: of attention, and of every second product.
func (m *machine) kept(n, e int64, product bool) *value {
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
func (m *machine) entry(x *value) {
	x.from = &node{grads: make([]gradient, 1), run: func(*machine, []*storage) []*storage { return nil }}
	x.slot, x.leaf = 0, nil
	m.tape = append(m.tape, x.from)
}

// caught is the gradient that reaches a checkpoint's input.
type caught struct{ st *storage }
