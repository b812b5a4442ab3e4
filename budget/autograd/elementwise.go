package autograd

import "github.com/vramscope/vramscope/internal/words"

// The operations below allocate, save and free what PyTorch's do. Names of
// backward functions in comments are autograd's. A bare "g[0]" that is
// returned is an alias: the same gradient goes on.

// Narrow is the width of an autocast operation's result.
func (m *Machine) Narrow(e int64) int64 {
	if m.Mixed && e == 4 {
		return 2
	}
	return e
}

// Cast is x.to(width): nothing when the width is that already.
func (m *Machine) Cast(x *Value, e int64) *Value {
	if x.Width == e {
		return m.Again(x)
	}
	y := m.Tensor(x.N, e)
	y.ByHead = x.ByHead
	m.UnaryNode(y, x, gradCategory(x)) // ToCopyBackward
	return y
}

// Weight is a parameter as an autocast operation sees it: a copy in 16 bits, kept where the parameter is trained.
func (m *Machine) Weight(p *Parameter) *Value {
	v := p.Val
	if p.Packed && m.Pass.Mixed8 {
		return &Value{Mem: m.Alloc(0, words.Temporary), N: v.N, Width: m.Width}
	}
	if p.Packed { // unpacked for this product alone
		return &Value{Mem: m.unpacked(v.N), N: v.N, Width: m.Width}
	}
	if !m.Mixed || v.Width != 4 {
		return m.Again(v)
	}
	if c := m.Casts[p]; c != nil {
		return m.Again(c)
	}
	c := &Value{Mem: m.Alloc(2*v.N, words.AutocastCopies), N: v.N, Width: 2}
	m.Record([]*Value{c}, []*Value{v}, nil, func(g []*Storage) []*Storage {
		return []*Storage{m.Alloc(4*v.N, words.Gradients)}
	})
	if p.Trainable {
		m.Casts[p] = m.Again(c)
	}
	return c
}

// LeaveAutocast ends autocast, which empties its cache of weights.
func (m *Machine) LeaveAutocast() {
	for p, c := range m.Casts {
		m.Drop(c)
		delete(m.Casts, p)
	}
	m.Mixed = false
}

// WeightGrad is the category of a weight's gradient as the product makes it.
func (m *Machine) WeightGrad(w *Value) words.Category {
	if w.Width == m.Wide {
		return words.Gradients
	}
	return words.Temporary
}

// Embedding looks t rows of h up; idBytes is what the ids cost when they are saved.
func (m *Machine) Embedding(p *Parameter, t, h int64, ids *Storage) *Value {
	y := m.Tensor(t*h, p.Val.Width)
	bytes, n := p.Val.Bytes(), p.Val.N/h
	compiled, wide := m.Compiled, 4*p.Val.N
	m.Record([]*Value{y}, []*Value{p.Val}, []*Storage{ids}, func(g []*Storage) []*Storage {
		if compiled {
			return []*Storage{m.tableGradient(bytes, wide)}
		}
		if t > 3072 { // the sorted kernel
			defer m.Pulse(4*h*(t/10+min(t, n)), words.Temporary)
		}
		return []*Storage{m.Alloc(bytes, words.Gradients)}
	})
	return y
}

// tableGradient is what compiled code makes for the embeddings: it adds up in float32.
func (m *Machine) tableGradient(bytes, wide int64) *Storage {
	sum := m.AllocIf(wide > bytes, wide, words.Temporary)
	r := m.Alloc(bytes, words.Gradients)
	m.Release(sum)
	if m.late != nil {
		both := m.Alloc(bytes, words.Gradients)
		m.ReleaseAll(append(m.late, r))
		r, m.late = both, nil
	}
	return r
}

// Add is a + b; the sum has the wider type.
func (m *Machine) Add(a, b *Value) *Value {
	y := m.Tensor(max(a.N, b.N), max(a.Width, b.Width))
	ab, bb := a.Bytes(), b.Bytes()
	na, nb := a.NeedsGrad(), b.NeedsGrad()
	m.Record([]*Value{y}, []*Value{a, b}, nil, func(g []*Storage) []*Storage {
		r := make([]*Storage, 2)
		for i, want := range []int64{ab, bb} {
			if i == 0 && !na || i == 1 && !nb {
				continue
			}
			if want == g[0].Bytes {
				r[i] = m.Keep(g[0])
			} else {
				r[i] = m.Alloc(want, words.Temporary) // cast or summed to the input
			}
		}
		return r
	})
	return y
}

// AddInPlace is a += b for two of one shape: the gradient goes to both as it is.
func (m *Machine) AddInPlace(a, b *Value) *Value {
	y := m.Again(a)
	m.Record([]*Value{y}, []*Value{a, b}, nil, func(g []*Storage) []*Storage {
		return []*Storage{m.Keep(g[0]), m.Keep(g[0])}
	})
	return y
}

// factors are what a product of two saves: each where the other's gradient, of which is said whether it is needed, takes it.
func factors(a, b *Value) (na, nb bool, saved []*Storage) {
	saved = []*Storage{nil, nil}
	if na = a.NeedsGrad(); na {
		saved[0] = b.Mem
	}
	if nb = b.NeedsGrad(); nb {
		saved[1] = a.Mem
	}
	return na, nb, saved
}

// Mul is a * b, saving each factor that the other's gradient needs.
func (m *Machine) Mul(a, b *Value) *Value {
	y := m.Tensor(max(a.N, b.N), max(a.Width, b.Width))
	y.ByHead = a.ByHead
	na, nb, saved := factors(a, b)
	ab, bb, full := a.Bytes(), b.Bytes(), y.Bytes()
	small := b.N < a.N
	rows := int64(0)
	if small && b.N > 0 {
		rows = a.N / b.N
	}
	bn, ye, leaf := b.N, y.Width, b.Leaf != nil
	m.Record([]*Value{y}, []*Value{a, b}, saved, func(g []*Storage) []*Storage { // MulBackward
		r := []*Storage{m.AllocIf(na, full, words.Temporary), m.AllocIf(nb, full, words.Temporary)}
		// Both products stand before either is cast or summed to its factor.
		r[0] = m.Fit(r[0], ab, words.Temporary)
		if nb {
			c := words.Temporary
			if leaf {
				c = words.Gradients
			}
			if leaf && small {
				m.Pulse(Staging(rows, bn, ye)+bb, words.Temporary)
			}
			r[1] = m.Fit(r[1], bb, c)
		}
		return r
	})
	return y
}

// Scale is x times or plus a constant: nothing is saved.
func (m *Machine) Scale(x *Value) *Value { return m.Unary(x, false, false) }

// Shift is x plus a constant: the gradient passes as it is.
func (m *Machine) Shift(x *Value) *Value {
	y := m.Tensor(x.N, x.Width)
	m.Record([]*Value{y}, []*Value{x}, nil, m.Alias)
	return y
}

// Alias gives the first gradient on as it is.
func (m *Machine) Alias(g []*Storage) []*Storage { return []*Storage{m.Keep(g[0])} }

// Unary is an elementwise function that saves its input, its output or neither.
func (m *Machine) Unary(x *Value, input, output bool) *Value {
	y := m.Tensor(x.N, x.Width)
	y.ByHead = x.ByHead
	var saved []*Storage
	if input {
		saved = append(saved, x.Mem)
	}
	if output {
		saved = append(saved, y.Mem)
	}
	m.UnaryNode(y, x, gradCategory(x), saved...)
	return y
}

// gradCategory is what the gradient of x counts as: that of logits is logits.
func gradCategory(x *Value) words.Category {
	if x.Mem.Cat == words.Logits {
		return words.Logits
	}
	return words.Temporary
}

// Power is pow(x, k) for k > 1; under autocast in float32.
func (m *Machine) Power(x *Value) *Value {
	in := m.WideUnderAutocast(x)
	y := m.Tensor(in.N, in.Width)
	b := in.Bytes()
	m.Record([]*Value{y}, []*Value{in}, []*Storage{in.Mem}, func(g []*Storage) []*Storage {
		return []*Storage{m.Amid(b, words.Temporary, b, b)} // x^(k-1), and k times that
	})
	m.Drop(in)
	return y
}

// WideUnderAutocast is x as an operation takes it that autocast makes in float32.
func (m *Machine) WideUnderAutocast(x *Value) *Value {
	if m.Mixed {
		return m.Cast(x, 4)
	}
	return m.Again(x)
}

// Dropout keeps one byte per element; with p = 0 it is the identity.
func (m *Machine) Dropout(x *Value, p float64) *Value {
	if p <= 0 || m.Pass.Inference {
		return m.Again(x)
	}
	mask := m.Alloc(x.N, words.Temporary)
	defer m.Release(mask)
	return m.Gather(x, x.N, mask)
}

// Mean is one number of all; its gradient is spread over all again.
func (m *Machine) Mean(x *Value) *Value {
	return m.Made(x, 1, x.Width, gradCategory(x))
}

// Slice is a view of most of x, whose gradient is as wide as x.
func (m *Machine) Slice(x *Value) *Value {
	y := m.Again(x)
	m.UnaryNode(y, x, gradCategory(x))
	return y
}

// Inverse is rsqrt(mean of squares + eps): one number per row, kept.
func (m *Machine) Inverse(x *Value, rows int64) *Value {
	v := m.MeanSquare(x, rows)
	return m.Replace(v, m.Unary(v, false, true))
}

// AddBias is y + bias in the wider of the two types.
func (m *Machine) AddBias(y, b *Value) *Value {
	z := m.Tensor(y.N, max(y.Width, b.Width))
	rows, yb, ze := y.N/b.N, y.Bytes(), z.Width
	needB := b.NeedsGrad()
	m.Record([]*Value{z}, []*Value{y, b}, nil, func(g []*Storage) []*Storage {
		r := []*Storage{m.Keep(g[0]), nil}
		if yb != g[0].Bytes {
			m.Release(r[0])
			r[0] = m.Alloc(yb, words.Temporary)
		}
		if needB {
			m.Pulse(Staging(rows, b.N, ze), words.Temporary)
			r[1] = m.Alloc(b.Bytes(), words.Gradients)
		}
		return r
	})
	return z
}
