package network

// What is made of a value in steps, each result in the place of the one before. A step is a layer, a norm, an activation or
// whatever else has a forward, an operation of the machine, a width in bytes to cast to, or a probability of dropout.

type forwards interface {
	forward(m *Machine, x *value) *value
}

// elementwise are functions whose gradient is worked out from their input, or from their output.
type elementwise int

const (
	byInput elementwise = iota
	byOutput
)

// plus and times are a sum with another value, and a product; adds and multiplies are those that let the other one go.
type (
	plus       struct{ *value }
	times      struct{ *value }
	adds       struct{ *value }
	multiplies struct{ *value }
)

// of is what some steps make of x, which stays.
func (m *Machine) of(x *value, steps ...any) *value {
	y := m.step(x, steps[0])
	return m.into(y, steps[1:]...)
}

// into is what they make in its place.
func (m *Machine) into(x *value, steps ...any) *value {
	for _, s := range steps {
		x = m.Replace(x, m.step(x, s))
	}
	return x
}

// when is a step that is taken where something holds, and else nothing.
func when(holds bool, step any) any {
	if holds {
		return step
	}
	return 0.0
}

// convolves is a convolution: its weight and bias, how many elements it makes, and what unfolding its input takes.
type convolves struct {
	weight, bias *parameter
	out, columns int64
}

func (c convolves) forward(m *Machine, x *value) *value {
	return m.convolution(x, c.weight, c.bias, c.out, c.columns)
}

func (m *Machine) step(x *value, s any) *value {
	switch s := s.(type) {
	case forwards:
		return s.forward(m, x)
	case func(*value) *value:
		return s(x)
	case elementwise:
		return m.Unary(x, s == byInput, s == byOutput)
	case plus:
		return m.Add(x, s.value)
	case times:
		return m.Mul(x, s.value)
	case adds:
		defer m.Drop(s.value)
		return m.Add(x, s.value)
	case multiplies:
		defer m.Drop(s.value)
		return m.Mul(x, s.value)
	case int64:
		return m.Cast(x, s)
	case float64:
		return m.Dropout(x, s)
	}
	return m.Cast(x, int64(s.(int)))
}

// A layer and an activation are steps.
func (l *Linear) forward(m *Machine, x *value) *value    { return m.apply(x, l) }
func (a activation) forward(m *Machine, x *value) *value { return m.activate(x, a) }
