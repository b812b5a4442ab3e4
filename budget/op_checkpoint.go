package budget

import "slices"

// checkpoint runs f without a graph and keeps its input and arguments;
// backward runs f again.
func (m *machine) checkpoint(x *value, f func(*value) *value, args ...*storage) *value {
	in := m.again(x)
	m.replay = replay{discard: true}
	y := f(in)
	until := m.replay.last
	m.replay = replay{}
	m.drop(in)
	y.from, y.leaf = nil, nil
	mixed := m.mixed
	keep := *x
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
		m.replay = replay{until: until}
		z := f(again)
		m.replay = replay{}
		m.drop(again)
		m.leaveAutocast()
		m.mixed = was
		if z.from != nil {
			z.from.grads[z.slot], g[0] = gradient{g[0], false}, nil // it goes with the part's last operation
		}
		m.drop(z)
		m.backward(from)
		return []*storage{catch.st}
	})
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
