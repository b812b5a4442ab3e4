package budget

// adapter is a LoRA pair on a linear layer.
type adapter struct {
	a, b *linear
	wide bool // kept in float32 though the model is narrow
}

// apply is a linear layer with whatever adapter stands on it.
func (m *machine) apply(x *value, l *linear) *value {
	if l.separate && l.bias != nil {
		plain := *l
		plain.bias = nil
		y := m.linear(x, &plain)
		return m.replace(y, m.addBias(y, l.bias.val))
	}
	y := m.linear(x, l)
	if l.adapter == nil {
		return y
	}
	in := m.again(x)
	if l.adapter.wide && !m.mixed {
		in = m.replace(in, m.cast(in, 4))
	}
	p := m.linear(in, l.adapter.a)
	m.drop(in)
	q := m.linear(p, l.adapter.b)
	m.drop(p)
	q = m.replace(q, m.scale(q))
	s := m.add(y, q)
	m.drop(q, y)
	if s.e > x.e && !m.mixed {
		s = m.replace(s, m.cast(s, x.e))
	}
	return s
}

// addBias is y + bias in the wider of the two types.
func (m *machine) addBias(y, b *value) *value {
	z := m.tensor(y.n, max(y.e, b.e))
	rows, yb := y.n/b.n, y.bytes()
	needB := b.needsGrad()
	m.record([]*value{z}, []*value{y, b}, nil, func(m *machine, g []*storage) []*storage {
		r := []*storage{m.keep(g[0]), nil}
		if yb != g[0].bytes {
			m.release(r[0])
			r[0] = m.alloc(yb, Temporary)
		}
		if needB {
			m.pulse(staging(rows, b.n), Temporary)
			r[1] = m.alloc(b.bytes(), Gradients)
		}
		return r
	})
	return z
}
