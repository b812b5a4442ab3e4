package autograd

import "github.com/vramscope/vramscope/internal/words"

// Matmul is a batched product of two activations.
func (m *Machine) Matmul(a, b *Value, n int64) *Value {
	x, y := m.Cast(a, m.Narrow(a.Width)), m.Cast(b, m.Narrow(b.Width))
	z := m.Tensor(n, x.Width)
	m.Pulse(m.Cublas, words.Workspace)
	na, nb, saved := factors(x, y)
	xb, yb := x.Bytes(), y.Bytes()
	m.Record([]*Value{z}, []*Value{x, y}, saved, func(g []*Storage) []*Storage { // BmmBackward
		r := make([]*Storage, 2)
		if nb {
			r[1] = m.Alloc(yb, words.Temporary)
			m.Pulse(m.Cublas, words.Workspace)
		}
		if na {
			r[0] = m.Alloc(xb, words.Temporary)
			m.Pulse(m.Cublas, words.Workspace)
		}
		return r
	})
	m.Drop(x, y)
	return z
}

// CopyOf is contiguous() or a reshape that has to move data.
func (m *Machine) CopyOf(x *Value) *Value { return m.Unary(x, false, false) }

// Split makes views of one projection; their gradients are put together in one buffer.
func (m *Machine) Split(x *Value, parts ...int64) []*Value {
	vs := make([]*Value, len(parts))
	for i, n := range parts {
		vs[i] = m.View(x, n)
	}
	b := x.Bytes()
	m.Record(vs, []*Value{x}, nil, func(g []*Storage) []*Storage {
		return []*Storage{m.Alloc(b, words.Temporary)}
	})
	return vs
}

// Cat joins values; the gradients are views of the whole.
func (m *Machine) Cat(vs ...*Value) *Value {
	var n, e int64
	for _, v := range vs {
		n += v.N
		e = max(e, v.Width)
	}
	y := m.Tensor(n, e)
	m.Record([]*Value{y}, vs, nil, func(g []*Storage) []*Storage {
		r := make([]*Storage, len(vs))
		for i := range vs {
			r[i] = m.Keep(g[0])
		}
		return r
	})
	return y
}

// Softmax saves its output; wide makes it in float32.
func (m *Machine) Softmax(x *Value, wide bool) *Value {
	in := m.WideUnderAutocast(x)
	if wide && in.Width != 4 {
		c := m.Replace(in, m.Cast(in, 4))
		in = c
	}
	y := m.Tensor(in.N, in.Width)
	b := in.Bytes()
	m.Record([]*Value{y}, []*Value{in}, []*Storage{y.Mem}, func(g []*Storage) []*Storage {
		return []*Storage{m.Amid(b, words.Temporary, b)} // grad * output
	})
	m.Drop(in)
	return y
}

// Normalised has a mean and a variance for each of some rows; under autocast in float32.
func (m *Machine) Normalised(x *Value, size, rows int64, weights ...*Parameter) *Value {
	in := m.WideUnderAutocast(x)
	stat := m.Alloc(8*rows, words.Temporary)
	y := m.Tensor(in.N, in.Width)
	b, e := in.Bytes(), m.Wide
	ins := []*Value{in}
	for _, w := range weights {
		if w != nil {
			ins = append(ins, w.Val)
		}
	}
	needX := in.NeedsGrad()
	m.Record([]*Value{y}, ins, []*Storage{in.Mem, stat}, func(g []*Storage) []*Storage {
		r := make([]*Storage, len(ins))
		r[0] = m.AllocIf(needX, b, words.Temporary)
		for i := 1; i < len(ins); i++ {
			r[i] = m.AllocIf(ins[i].NeedsGrad(), size*e, words.Gradients)
		}
		return r
	})
	m.Release(stat)
	m.Drop(in)
	return y
}

// MeanSquare is x.pow(2).mean(-1): the input is saved, one number per row comes out.
func (m *Machine) MeanSquare(x *Value, rows int64) *Value {
	p := m.Power(x)
	return m.Replace(p, m.Gather(p, rows))
}

// Gather is n elements made of x, as x[index] or a padded copy, which a pad of nothing is, too: it keeps the index and whatever
// else it is given; the gradient is scattered back into zeros.
func (m *Machine) Gather(x *Value, n int64, keeps ...*Storage) *Value {
	return m.Made(x, n, x.Width, words.Temporary, keeps...)
}

// Made is a new tensor of n elements of some bytes, made of x; its gradient is one new tensor of x's size.
func (m *Machine) Made(x *Value, n, width int64, c words.Category, saved ...*Storage) *Value {
	y := m.Tensor(n, width)
	m.UnaryNode(y, x, c, saved...)
	return y
}
