package budget

// matmul is a batched product of two activations.
func (m *Machine) matmul(a, b *value, n int64) *value {
	x, y := m.cast(a, m.narrow(a.e)), m.cast(b, m.narrow(b.e))
	z := m.tensor(n, x.e)
	m.pulse(m.cublas, Workspace)
	na, nb := x.needsGrad(), y.needsGrad()
	saved := []*storage{nil, nil}
	if na {
		saved[0] = y.st
	}
	if nb {
		saved[1] = x.st
	}
	xb, yb := x.bytes(), y.bytes()
	m.record([]*value{z}, []*value{x, y}, saved, func(g []*storage) []*storage { // BmmBackward
		r := make([]*storage, 2)
		if nb {
			r[1] = m.alloc(yb, Temporary)
			m.pulse(m.cublas, Workspace)
		}
		if na {
			r[0] = m.alloc(xb, Temporary)
			m.pulse(m.cublas, Workspace)
		}
		return r
	})
	m.drop(x, y)
	return z
}

// copyOf is contiguous() or a reshape that has to move data.
func (m *Machine) copyOf(x *value) *value { return m.unary(x, false, false) }

// split makes k views of one projection; their gradients are put together
// again in one buffer.
func (m *Machine) split(x *value, parts ...int64) []*value {
	vs := make([]*value, len(parts))
	for i, n := range parts {
		v := m.again(x)
		v.n, v.from, v.leaf = n, nil, nil
		vs[i] = v
	}
	b := x.bytes()
	m.record(vs, []*value{x}, nil, func(g []*storage) []*storage {
		return []*storage{m.alloc(b, Temporary)}
	})
	return vs
}

// cat joins values; the gradients are views of the whole.
func (m *Machine) cat(vs ...*value) *value {
	var n, e int64
	for _, v := range vs {
		n += v.n
		e = max(e, v.e)
	}
	y := m.tensor(n, e)
	m.record([]*value{y}, vs, nil, func(g []*storage) []*storage {
		r := make([]*storage, len(vs))
		for i := range vs {
			r[i] = m.keep(g[0])
		}
		return r
	})
	return y
}

// softmax saves its output; wide makes it in float32.
func (m *Machine) softmax(x *value, wide bool) *value {
	in := m.wideUnderAutocast(x)
	if wide && in.e != 4 {
		c := m.replace(in, m.cast(in, 4))
		in = c
	}
	y := m.tensor(in.n, in.e)
	b := in.bytes()
	m.record([]*value{y}, []*value{in}, []*storage{y.st}, func(g []*storage) []*storage {
		return []*storage{m.amid(b, Temporary, b)} // grad * output
	})
	m.drop(in)
	return y
}

// normalised has a mean and a variance for each of some rows; under autocast in float32.
func (m *Machine) normalised(x *value, size, rows int64, weights ...*parameter) *value {
	in := m.wideUnderAutocast(x)
	stat := m.alloc(8*rows, Temporary)
	y := m.tensor(in.n, in.e)
	b, e := in.bytes(), m.wide
	ins := []*value{in}
	for _, w := range weights {
		if w != nil {
			ins = append(ins, w.val)
		}
	}
	needX := in.needsGrad()
	m.record([]*value{y}, ins, []*storage{in.st, stat}, func(g []*storage) []*storage {
		r := make([]*storage, len(ins))
		if needX {
			r[0] = m.alloc(b, Temporary)
		}
		for i := 1; i < len(ins); i++ {
			if ins[i].needsGrad() {
				r[i] = m.alloc(size*e, Gradients)
			}
		}
		return r
	})
	m.release(stat)
	m.drop(in)
	return y
}

// meanSquare is x.pow(2).mean(-1): the input is saved, one number per row comes out.
func (m *Machine) meanSquare(x *value, rows int64) *value {
	p := m.power(x)
	y := m.tensor(rows, p.e)
	m.unaryNode(y, p, Temporary)
	m.drop(p)
	return y
}

// gather is x[index], which keeps the index and whatever else it is given; the
// gradient is scattered back into zeros.
func (m *Machine) gather(x *value, n int64, keeps ...*storage) *value {
	y := m.tensor(n, x.e)
	m.unaryNode(y, x, Temporary, keeps...)
	return y
}

// resized is a padded copy, which a pad of nothing is, too.
func (m *Machine) resized(x *value, n int64) *value {
	y := m.tensor(n, x.e)
	m.unaryNode(y, x, Temporary)
	return y
}
