package autograd

import (
	"slices"

	"github.com/vramscope/vramscope/internal/words"
)

// Checkpoint runs f without a graph and keeps its input and arguments; backward runs f again.
func (m *Machine) Checkpoint(x *Value, f func(*Value) *Value, args ...*Storage) *Value {
	in := m.Again(x)
	start := &Node{grads: make([]gradient, 1)}
	if in.NeedsGrad() {
		in.From, in.Slot, in.Leaf = start, 0, nil
	}
	op := m.Replay.Op
	m.Replay, m.stopped = Replay{Discard: true, Op: op}, false
	y := f(in)
	gathered := m.Replay.Gathered
	until, keeps, tail := m.Replay.last, m.Replay.outputs, m.Replay.tail
	defer m.ReleaseAll(gathered)
	m.Replay, m.stopped = Replay{}, false
	if until == 0 || y.From == start {
		tail = nil
	}
	end, slot := y.From, y.Slot
	if m.Pass.Compiles { // what backward doesn't need isn't kept, though the policy says so
		keeps = slices.DeleteFunc(keeps, func(o output) bool {
			if o.at >= until {
				m.Release(o.st)
			}
			return o.at >= until
		})
	}
	m.Drop(in)
	y.From, y.Leaf = nil, nil
	mixed := m.Mixed
	keep := *x
	if m.Pass.InputsLeave && m.Phase == Forward {
		m.Stash = stashUnsloth
		defer func() { m.Stash = 0 }()
	}
	saved := append(append(slices.Clip(args), x.Mem), gathered...)
	m.Record([]*Value{y}, []*Value{x}, saved, func(g []*Storage) []*Storage {
		entry := &Node{grads: make([]gradient, 1)}
		var early []arriving
		if len(tail) > 0 && end == tail[len(tail)-1] {
			end.grads[slot], g[0] = gradient{g[0], false}, nil
			early = m.runTail(tail)
			if st := start.grads[0].st; st != nil {
				entry.grads[0], start.grads[0] = start.grads[0], gradient{}
			}
		}
		was := m.Mixed
		m.Mixed = mixed
		again := &Value{Mem: m.Keep(keep.Mem), N: keep.N, Width: keep.Width, ByHead: keep.ByHead}
		var caught *Storage // the gradient that reaches the input
		entry.run = func(g []*Storage) []*Storage {
			caught = m.Keep(g[0])
			return nil
		}
		from := len(m.Tape)
		m.Tape = append(m.Tape, entry)
		again.From = entry
		m.Replay, m.stopped = Replay{Until: until, Op: op, outputs: keeps, early: early}, false
		z := f(again)
		left := m.Replay.outputs
		m.Replay, m.stopped = Replay{}, false
		m.Drop(again)
		m.LeaveAutocast()
		m.Mixed = was
		if z.From != nil && g[0] != nil {
			z.From.grads[z.Slot], g[0] = gradient{g[0], false}, nil // it goes with the part's last operation
		}
		m.Drop(z)
		m.Backward(from)
		for _, o := range left {
			m.Release(o.st)
		}
		return []*Storage{caught}
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
func (m *Machine) trail(nd *Node, ins []*Value, saved []*Storage) {
	p := &m.Replay
	p.nodes++
	nd.place = p.nodes
	if m.Compiled || slices.ContainsFunc(saved, func(s *Storage) bool { return s != nil }) ||
		slices.ContainsFunc(ins, func(v *Value) bool { return v.NeedsGrad() && v.From == nil }) {
		p.tail = p.tail[:0]
		return
	}
	nd.in = m.slabs.ins.take(len(ins))
	for i, v := range ins {
		if v.NeedsGrad() {
			nd.in[i] = v.edge()
		}
	}
	p.tail = append(p.tail, nd)
}

// runTail is backward of these nodes. What they give to those before them waits for the second run.
func (m *Machine) runTail(tail []*Node) (early []arriving) {
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
func (p *Replay) arrive(nd *Node) {
	p.nodes++
	for i, a := range p.early {
		if a.place == p.nodes {
			nd.grads[a.slot], p.early[i].place = a.g, 0
		}
	}
}

// output is a result that a policy keeps from a checkpointed function's first run for its second.
type output struct {
	st *Storage
	at int64 // which result it is
}

// Kept makes a result of n elements that torchtitan's policy keeps, as PyTorch's examples
// have it, too: of attention, and of every second product.
func (m *Machine) Kept(n, e int64, product bool) *Value {
	p := &m.Replay
	if !p.Op || !p.Discard && p.Until == 0 {
		return m.Tensor(n, e)
	}
	if product {
		if p.products++; p.products%2 == 0 {
			return m.Tensor(n, e)
		}
	}
	if p.Discard {
		y := m.Tensor(n, e)
		m.Keep(y.Mem)
		m.Become(y.Mem, words.Activations)
		p.outputs = append(p.outputs, output{y.Mem, p.tensors})
		return y
	}
	p.tensors++
	if p.tensors >= p.Until {
		m.stopped = true
	}
	if len(p.outputs) == 0 {
		return m.slabs.values.put(Value{Mem: m.Alloc(n*e, words.Temporary), N: n, Width: e})
	}
	y := m.slabs.values.put(Value{Mem: p.outputs[0].st, N: n, Width: e})
	p.outputs = p.outputs[1:]
	return y
}

// Entry makes x the start of a graph whose gradient nobody keeps.
func (m *Machine) Entry(x *Value) {
	x.From = &Node{grads: make([]gradient, 1), run: func([]*Storage) []*Storage { return nil }}
	x.Slot, x.Leaf = 0, nil
	m.Tape = append(m.Tape, x.From)
}
