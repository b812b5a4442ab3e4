package budget

// adapter is a LoRA pair on a linear layer.
type adapter struct {
	a, b *linear
	wide bool // kept in float32 though the model is narrow
}

// apply is a linear layer with whatever adapter stands on it.
func (m *machine) apply(x *value, l *linear) *value {
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
