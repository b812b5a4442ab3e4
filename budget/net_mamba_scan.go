package budget

// scanSteps bounds how many steps of a sequential scan are followed one by
// one; longer sequences are walked in as many larger steps.
const scanSteps = 512

// sequential is mamba's mixer as Python walks it where no kernel is
// installed: everything of every token's state is kept for backward.
func (x *mamba) sequential(m *machine, in *value, s shape) *value {
	t := in.n / x.h
	n, di := x.state_, x.inner
	p := m.apply(in, x.in)
	log := m.cast(x.a.val, 4)
	e := m.replace(log, m.unary(log, false, true))
	a := m.replace(e, m.scale(e))
	d := m.cast(x.skip.val, 4)
	parts := m.split(p, t*di, t*di)
	conv := x.convolve(m, parts[0], t, s.batch)
	h := m.replace(conv, m.unary(conv, true, false))
	xp := m.apply(h, x.x)
	ps := m.split(xp, t*x.rank, t*n, t*n)
	m.drop(xp)
	plain := *x.dt
	plain.bias = nil
	dt := m.linear(ps[0], &plain)
	dt = m.replace(dt, m.addBias(dt, x.dt.bias.val))
	if dt.e > in.e && !m.mixed {
		dt = m.replace(dt, m.cast(dt, in.e))
	}
	wide := m.wideUnderAutocast(dt)
	dt = m.replace(dt, m.unary(wide, true, false)) // softplus
	m.drop(wide)
	full := t * di * n
	raw := outer(m, a, dt, full)
	da := m.replace(raw, m.unary(raw, false, true))
	b := m.cast(ps[1], 4)
	db := outer(m, dt, b, full)
	hf := m.cast(h, 4)
	u := outer(m, db, hf, full)
	y := walk(m, da, u, ps[2], t, s.batch, di*n, di)
	hd := m.mul(h, d)
	sum := m.add(y, hd)
	m.drop(hd, y)
	g := m.unary(parts[1], true, false)
	out := m.mul(sum, g)
	m.drop(u, da, db, b, hf, raw, g, sum)
	w := m.cast(out, in.e)
	z := m.apply(w, x.out)
	m.drop(w, out, h, dt, a, d, p)
	m.drop(parts...)
	m.drop(ps...)
	return z
}

// outer is a product of two factors that are both spread over n elements, in float32.
func outer(m *machine, a, b *value, n int64) *value {
	y := m.tensor(n, 4)
	na, nb := a.needsGrad(), b.needsGrad()
	ab, bb := a.bytes(), b.bytes()
	m.record([]*value{y}, []*value{a, b}, []*storage{a.st, b.st}, func(g []*storage) []*storage {
		r := make([]*storage, 2)
		if na {
			r[0] = m.alloc(4*n, Temporary)
		}
		if nb {
			r[1] = m.alloc(4*n, Temporary)
		}
		if na {
			r[0] = m.fit(r[0], ab, Temporary)
		}
		if nb {
			r[1] = m.fit(r[1], bb, Temporary)
		}
		return r
	})
	return y
}

// pick is one step's part of a whole; its gradient is the whole's, zero elsewhere.
func pick(m *machine, x *value, n int64) *value {
	y := m.again(x)
	y.n, y.from, y.leaf = n, nil, nil
	m.unaryNode(y, x, Temporary)
	return y
}

// walk is state = A[i] * state + U[i], y[i] = state @ C[i], token by token.
func walk(m *machine, a, u, c *value, tokens, batch, state, di int64) *value {
	seq := tokens / max(batch, 1)
	steps := min(max(seq, 1), scanSteps)
	st := m.tensor(batch*state, m.narrow(4))
	var ys []*value
	for i := range steps {
		per := (seq*(i+1)/steps - seq*i/steps) * batch
		ai, ui := pick(m, a, per*state), pick(m, u, per*state)
		prod := m.mul(ai, st)
		next := m.add(prod, ui)
		m.drop(prod, ai, ui, st)
		st = next
		low := m.cast(st, m.width)
		y := m.tensor(per*di, m.width)
		m.pulse(m.cublas, Workspace)
		lb, cb := low.bytes(), c.bytes()
		m.record([]*value{y}, []*value{low, c}, []*storage{low.st, c.st}, func(g []*storage) []*storage {
			r := []*storage{m.alloc(lb, Temporary), m.alloc(cb, Temporary)}
			m.pulse(m.cublas, Workspace)
			return r
		})
		m.drop(low)
		ys = append(ys, y)
	}
	m.drop(st)
	all := m.cat(ys...)
	m.drop(ys...)
	return all
}

// convolve is the causal convolution over each channel: its output has the
// kernel's overhang.
func (x *mamba) convolve(m *machine, v *value, tokens, batch int64) *value {
	channels, kernel, bias := v.n/tokens, x.kernel, x.convBias
	in, k := m.cast(v, m.narrow(v.e)), m.weight(x.conv)
	ins := []*value{in, k}
	var b *value
	if bias != nil {
		b = m.weight(bias)
		ins = append(ins, b)
	}
	m.pulse(in.bytes(), Temporary)
	y := m.tensor((tokens+batch*(kernel-1))*channels, k.e)
	xb, wb, c := in.bytes(), k.bytes(), m.weightGrad(k)
	m.record([]*value{y}, ins, []*storage{in.st, k.st}, func(g []*storage) []*storage {
		r := []*storage{m.alloc(xb, Temporary), m.alloc(wb, c)}
		if bias != nil {
			r = append(r, m.alloc(wb/kernel, c))
		}
		m.pulse(xb, Temporary)
		return r
	})
	m.drop(in, k, b)
	y.n = tokens * channels
	return y
}
