package network

import "github.com/vramscope/vramscope/internal/words"

// scanSteps bounds how many steps of a scan are followed one by one; those of longer sequences are larger.
const scanSteps = 512

// sequential is mamba's mixer as Python walks it where no kernel is installed: every token's state is kept.
func (x *Mamba) sequential(m *Machine, in *value, s shape) *value {
	t := in.N / x.h
	n, di := x.state_, x.inner
	p := m.apply(in, x.in)
	a := m.of(x.a.Val, 4, byOutput, m.Scale)
	d := m.Cast(x.skip.Val, 4)
	parts := m.Split(p, t*di, t*di)
	h := m.into(x.convolve(m, parts[0], t, s.batch), byInput)
	xp := m.apply(h, x.x)
	ps := m.Split(xp, t*x.rank, t*n, t*n)
	m.Drop(xp)
	plain := *x.dt
	plain.Bias = nil
	dt := m.linear(ps[0], &plain)
	dt = m.Replace(dt, m.AddBias(dt, x.dt.Bias.Val))
	dt = m.into(dt, when(dt.Width > in.Width && !m.Mixed, in.Width))
	wide := m.WideUnderAutocast(dt)
	dt = m.Replace(dt, m.Unary(wide, true, false)) // softplus
	m.Drop(wide)
	full := t * di * n
	raw := outer(m, a, dt, full)
	da := m.Replace(raw, m.Unary(raw, false, true))
	b := m.Cast(ps[1], 4)
	db := outer(m, dt, b, full)
	hf := m.Cast(h, 4)
	u := outer(m, db, hf, full)
	y := walk(m, da, u, ps[2], t, s.batch, di*n, di)
	sum := m.into(y, adds{m.Mul(h, d)})
	g := m.Unary(parts[1], true, false)
	out := m.Mul(sum, g)
	m.Drop(u, da, db, b, hf, raw, g, sum)
	w := m.Cast(out, in.Width)
	z := m.apply(w, x.out)
	m.Drop(w, out, h, dt, a, d, p)
	m.Drop(parts...)
	m.Drop(ps...)
	return z
}

// outer is a product of two factors that are both spread over n elements, in float32.
func outer(m *Machine, a, b *value, n int64) *value {
	y := m.Tensor(n, 4)
	na, nb := a.NeedsGrad(), b.NeedsGrad()
	ab, bb := a.Bytes(), b.Bytes()
	m.Record([]*value{y}, []*value{a, b}, []*storage{a.Mem, b.Mem}, func(g []*storage) []*storage {
		r := []*storage{m.AllocIf(na, 4*n, words.Temporary), m.AllocIf(nb, 4*n, words.Temporary)}
		return []*storage{m.Fit(r[0], ab, words.Temporary), m.Fit(r[1], bb, words.Temporary)}
	})
	return y
}

// pick is one step's part of a whole; its gradient is the whole's, zero elsewhere.
func pick(m *Machine, x *value, n int64) *value {
	y := m.View(x, n)
	m.UnaryNode(y, x, words.Temporary)
	return y
}

// walk is state = A[i] * state + U[i], y[i] = state @ C[i], token by token.
func walk(m *Machine, a, u, c *value, tokens, batch, state, di int64) *value {
	seq := tokens / max(batch, 1)
	steps := min(max(seq, 1), scanSteps)
	st := m.Tensor(batch*state, m.Narrow(4))
	var ys []*value
	for i := range steps {
		per := (seq*(i+1)/steps - seq*i/steps) * batch
		ai, ui := pick(m, a, per*state), pick(m, u, per*state)
		next := m.of(ai, times{st}, plus{ui})
		m.Drop(ai, ui, st)
		st = next
		low := m.Cast(st, m.Width)
		y := m.Tensor(per*di, m.Width)
		m.Pulse(m.Cublas, words.Workspace)
		lb, cb := low.Bytes(), c.Bytes()
		m.Record([]*value{y}, []*value{low, c}, []*storage{low.Mem, c.Mem}, func(g []*storage) []*storage {
			r := []*storage{m.Alloc(lb, words.Temporary), m.Alloc(cb, words.Temporary)}
			m.Pulse(m.Cublas, words.Workspace)
			return r
		})
		m.Drop(low)
		ys = append(ys, y)
	}
	m.Drop(st)
	all := m.Cat(ys...)
	m.Drop(ys...)
	return all
}

// convolve is the causal convolution over each channel: its output has the kernel's overhang.
func (x *Mamba) convolve(m *Machine, v *value, tokens, batch int64) *value {
	channels, kernel, bias := v.N/tokens, x.kernel, x.convBias
	in, k := m.Cast(v, m.Narrow(v.Width)), m.Weight(x.conv)
	ins := []*value{in, k}
	var b *value
	if bias != nil {
		b = m.Weight(bias)
		ins = append(ins, b)
	}
	m.Pulse(in.Bytes(), words.Temporary)
	y := m.Tensor((tokens+batch*(kernel-1))*channels, k.Width)
	xb, wb, c := in.Bytes(), k.Bytes(), m.WeightGrad(k)
	m.Record([]*value{y}, ins, []*storage{in.Mem, k.Mem}, func(g []*storage) []*storage {
		r := []*storage{m.Alloc(xb, words.Temporary), m.Alloc(wb, c)}
		if bias != nil {
			r = append(r, m.Alloc(wb/kernel, c))
		}
		m.Pulse(xb, words.Temporary)
		return r
	})
	m.Drop(in, k, b)
	y.N = tokens * channels
	return y
}
