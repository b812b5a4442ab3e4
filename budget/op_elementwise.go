package budget

// The operations below allocate, save and free what PyTorch's do. Names of
// backward functions in comments are autograd's. A bare "g[0]" that is
// returned is an alias: the same gradient goes on.

// narrow is the width of an autocast operation's result.
func (m *Machine) narrow(e int64) int64 {
	if m.mixed && e == 4 {
		return 2
	}
	return e
}

// cast is x.to(width): nothing when the width is that already.
func (m *Machine) cast(x *value, e int64) *value {
	if x.e == e {
		return m.again(x)
	}
	y := m.tensor(x.n, e)
	y.byHead = x.byHead
	m.unaryNode(y, x, gradCategory(x)) // ToCopyBackward
	return y
}

// weight is a parameter as an autocast operation sees it: a 16-bit copy, kept
// for the whole autocast block when the parameter is trained.
func (m *Machine) weight(p *parameter) *value {
	v := p.val
	if p.packed && m.pass.Mixed8 {
		return &value{st: m.alloc(0, Temporary), n: v.n, e: m.width}
	}
	if p.packed { // unpacked for this product alone
		return &value{st: m.unpacked(v.n), n: v.n, e: m.width}
	}
	if !m.mixed || v.e != 4 {
		return m.again(v)
	}
	if c := m.casts[p]; c != nil {
		return m.again(c)
	}
	c := &value{st: m.alloc(2*v.n, AutocastCopies), n: v.n, e: 2}
	m.record([]*value{c}, []*value{v}, nil, func(g []*storage) []*storage {
		return []*storage{m.alloc(4*v.n, Gradients)}
	})
	if p.trainable {
		m.casts[p] = m.again(c)
	}
	return c
}

// enterAutocast and leaveAutocast bracket the block; leaving empties the cache.
func (m *Machine) leaveAutocast() {
	for p, c := range m.casts {
		m.drop(c)
		delete(m.casts, p)
	}
	m.mixed = false
}

// weightGrad is the category of a weight's gradient as the product makes it.
func (m *Machine) weightGrad(w *value) Category {
	if w.e == m.wide {
		return Gradients
	}
	return Temporary
}

// embedding looks t rows of h up; idBytes is what the ids cost when they are saved.
func (m *Machine) embedding(p *parameter, t, h int64, ids *storage) *value {
	y := m.tensor(t*h, p.val.e)
	bytes, n := p.val.bytes(), p.val.n/h
	compiled, wide := m.compiled, 4*p.val.n
	m.record([]*value{y}, []*value{p.val}, []*storage{ids}, func(g []*storage) []*storage {
		if compiled {
			return []*storage{m.tableGradient(bytes, wide)}
		}
		if t > 3072 { // the sorted kernel
			defer m.pulse(4*h*(t/10+min(t, n)), Temporary)
		}
		return []*storage{m.alloc(bytes, Gradients)}
	})
	return y
}

// tableGradient is what compiled code makes for the embeddings: it adds up in float32.
func (m *Machine) tableGradient(bytes, wide int64) *storage {
	var sum *storage
	if wide > bytes {
		sum = m.alloc(wide, Temporary)
	}
	r := m.alloc(bytes, Gradients)
	m.release(sum)
	if m.late != nil {
		both := m.alloc(bytes, Gradients)
		m.releaseAll(append(m.late, r))
		r, m.late = both, nil
	}
	return r
}

// add is a + b; the sum has the wider type.
func (m *Machine) add(a, b *value) *value {
	y := m.tensor(max(a.n, b.n), max(a.e, b.e))
	ab, bb := a.bytes(), b.bytes()
	na, nb := a.needsGrad(), b.needsGrad()
	m.record([]*value{y}, []*value{a, b}, nil, func(g []*storage) []*storage {
		r := make([]*storage, 2)
		for i, want := range []int64{ab, bb} {
			if i == 0 && !na || i == 1 && !nb {
				continue
			}
			if want == g[0].bytes {
				r[i] = m.keep(g[0])
			} else {
				r[i] = m.alloc(want, Temporary) // cast or summed to the input
			}
		}
		return r
	})
	return y
}

// addInPlace is a += b for two of one shape: the gradient goes to both as it is.
func (m *Machine) addInPlace(a, b *value) *value {
	y := m.again(a)
	m.record([]*value{y}, []*value{a, b}, nil, func(g []*storage) []*storage {
		return []*storage{m.keep(g[0]), m.keep(g[0])}
	})
	return y
}

// mul is a * b, saving each factor that the other's gradient needs.
func (m *Machine) mul(a, b *value) *value {
	y := m.tensor(max(a.n, b.n), max(a.e, b.e))
	y.byHead = a.byHead
	na, nb := a.needsGrad(), b.needsGrad()
	saved := []*storage{nil, nil}
	if na {
		saved[0] = b.st
	}
	if nb {
		saved[1] = a.st
	}
	ab, bb, full := a.bytes(), b.bytes(), y.bytes()
	small := b.n < a.n
	rows := int64(0)
	if small && b.n > 0 {
		rows = a.n / b.n
	}
	bn, ye, leaf := b.n, y.e, b.leaf != nil
	m.record([]*value{y}, []*value{a, b}, saved, func(g []*storage) []*storage { // MulBackward
		r := make([]*storage, 2)
		if na {
			r[0] = m.alloc(full, Temporary)
		}
		if nb {
			r[1] = m.alloc(full, Temporary)
		}
		// Both products stand before either is cast or summed to its factor.
		if na {
			r[0] = m.fit(r[0], ab, Temporary)
		}
		if nb {
			c := Temporary
			if leaf {
				c = Gradients
			}
			if leaf && small {
				m.pulse(staging(rows, bn, ye)+bb, Temporary)
			}
			r[1] = m.fit(r[1], bb, c)
		}
		return r
	})
	return y
}

// fit casts or sums a gradient to the bytes its input has.
func (m *Machine) fit(s *storage, want int64, c Category) *storage {
	if s.bytes == want {
		return s
	}
	t := m.alloc(want, c)
	m.release(s)
	return t
}

// scale is x times or plus a constant: nothing is saved.
func (m *Machine) scale(x *value) *value { return m.unary(x, false, false) }

// amid is a result that is made while some others of its category are there.
func (m *Machine) amid(bytes int64, c Category, others ...int64) *storage {
	var beside []*storage
	for _, n := range others {
		beside = append(beside, m.alloc(n, c))
	}
	defer m.releaseAll(beside)
	return m.alloc(bytes, c)
}

// shift is x plus a constant: the gradient passes as it is.
func (m *Machine) shift(x *value) *value {
	y := m.tensor(x.n, x.e)
	m.record([]*value{y}, []*value{x}, nil, m.alias)
	return y
}

func (m *Machine) alias(g []*storage) []*storage { return []*storage{m.keep(g[0])} }

// unary is an elementwise function that saves its input, its output or neither.
func (m *Machine) unary(x *value, input, output bool) *value {
	y := m.tensor(x.n, x.e)
	y.byHead = x.byHead
	var saved []*storage
	if input {
		saved = append(saved, x.st)
	}
	if output {
		saved = append(saved, y.st)
	}
	m.unaryNode(y, x, gradCategory(x), saved...)
	return y
}

// gradCategory is what the gradient of x counts as: that of logits is logits.
func gradCategory(x *value) Category {
	if x.st.cat == Logits {
		return Logits
	}
	return Temporary
}

// power is pow(x, k) for k > 1; under autocast in float32.
func (m *Machine) power(x *value) *value {
	in := m.wideUnderAutocast(x)
	y := m.tensor(in.n, in.e)
	b := in.bytes()
	m.record([]*value{y}, []*value{in}, []*storage{in.st}, func(g []*storage) []*storage {
		return []*storage{m.amid(b, Temporary, b, b)} // x^(k-1), and k times that
	})
	m.drop(in)
	return y
}

func (m *Machine) wideUnderAutocast(x *value) *value {
	if m.mixed {
		return m.cast(x, 4)
	}
	return m.again(x)
}

// dropout keeps one byte per element; with p = 0 it is the identity.
func (m *Machine) dropout(x *value, p float64) *value {
	if p <= 0 || m.pass.Inference {
		return m.again(x)
	}
	mask := m.alloc(x.n, Temporary)
	y := m.tensor(x.n, x.e)
	m.unaryNode(y, x, Temporary, mask)
	m.release(mask)
	return y
}

// mean is one number of all; its gradient is spread over all again.
func (m *Machine) mean(x *value) *value {
	y := m.tensor(1, x.e)
	m.unaryNode(y, x, gradCategory(x))
	return y
}

func (m *Machine) logit(v *value) {
	if v.st.cat == Temporary || v.st.cat == Activations {
		m.become(v.st, Logits)
	}
}

// slice is a view of most of x, whose gradient is as wide as x.
func (m *Machine) slice(x *value) *value {
	y := m.again(x)
	m.unaryNode(y, x, gradCategory(x))
	return y
}

// inverse is rsqrt(mean of squares + eps): one number per row, kept.
func (m *Machine) inverse(x *value, rows int64) *value {
	v := m.meanSquare(x, rows)
	return m.replace(v, m.unary(v, false, true))
}

// centre is x - x.mean(-1): the mean's gradient is one more full tensor.
func (m *Machine) centre(x *value, rows int64) *value {
	y := m.tensor(x.n, x.e)
	m.unaryNode(y, x, Temporary)
	return y
}

// addBias is y + bias in the wider of the two types.
func (m *Machine) addBias(y, b *value) *value {
	z := m.tensor(y.n, max(y.e, b.e))
	rows, yb, ze := y.n/b.n, y.bytes(), z.e
	needB := b.needsGrad()
	m.record([]*value{z}, []*value{y, b}, nil, func(g []*storage) []*storage {
		r := []*storage{m.keep(g[0]), nil}
		if yb != g[0].bytes {
			m.release(r[0])
			r[0] = m.alloc(yb, Temporary)
		}
		if needB {
			m.pulse(staging(rows, b.n, ze), Temporary)
			r[1] = m.alloc(b.bytes(), Gradients)
		}
		return r
	})
	return z
}
