package budget

// chunked is mamba-2's mixer as PyTorch runs it where no kernel is installed: scores of a chunk's tokens with each other, as
// in attention, the states between chunks, and both in float32 with keys and queries for every head.
func (x *mamba) chunked(m *machine, in *value, s shape) *value {
	t := in.n / x.h
	di, bc := x.inner, x.groups*x.state_
	padding := m.opts.Padding
	src := m.again(in)
	if padding {
		src = m.replace(src, m.scale(src))
	}
	p := m.replace(src, m.apply(src, x.in))
	parts := m.split(p, t*di, t*(di+2*bc), t*x.heads)
	gate := parts[0]
	wide := m.cast(parts[1], x.conv.val.e)
	conv := m.replace(wide, x.convolve(m, wide, t, s.batch))
	conv = m.replace(conv, m.unary(conv, true, false))
	if padding {
		conv = m.replace(conv, m.scale(conv))
	}
	hbc := m.split(conv, t*di, t*bc, t*bc)
	y := x.scan(m, hbc, parts[2], s)
	g := m.cast(gate, 4)
	g = m.replace(g, m.unary(g, true, false))
	gated := m.mul(y, g)
	m.drop(y, g)
	n := m.replace(gated, x.norm.forward(m, gated))
	w := m.cast(n, in.e)
	z := m.apply(w, x.out)
	m.drop(w, n, conv, p)
	m.drop(hbc...)
	m.drop(parts...)
	return z
}

// scan is mamba2_chunk_scan (modeling_mamba2.py), name by name.
func (x *mamba) scan(m *machine, hbc []*value, dt *value, s shape) *value {
	t, chunks := hbc[0].n/x.inner, (s.queries+x.chunk-1)/x.chunk
	padded := s.batch * chunks * x.chunk
	heads, inner, keys := padded*x.heads, padded*x.inner, padded*x.heads*x.state_
	step := m.add(dt, x.dtBias.val)
	step = m.replace(step, m.cast(step, dt.e))
	step = m.replace(step, m.wideUnderAutocast(step))
	step = m.replace(step, m.unary(step, true, false)) // softplus
	step = m.replace(step, m.unary(step, true, false)) // clamp
	h := m.cast(hbc[0], 4)
	b, c := x.spread(m, hbc[1]), x.spread(m, hbc[2])
	ahead := m.resized(h, inner)
	skip := m.replace(ahead, m.mul(ahead, x.skip.val))
	f := m.cast(step, 4)
	h = m.replace(h, m.mul(h, f))
	rate := m.cast(x.a.val, 4)
	rate = m.replace(rate, m.unary(rate, false, true))
	a := m.replace(f, m.mul(f, rate))
	m.drop(rate)
	old := []*value{h, a, b, c}
	h, a, b, c = m.resized(h, inner), m.resized(a, heads), m.resized(b, keys), m.resized(c, keys)
	m.drop(old...)
	sum := m.scale(a)
	decay := x.decays(m, a, heads*x.chunk)
	scores := x.product(m, c, b, heads*x.chunk)
	weights := m.mul(scores, decay)
	inside := x.times(m, weights, h, inner)
	left := m.scale(sum)
	left = m.replace(left, m.unary(left, false, true))
	faded := m.mul(b, left)
	state := s.batch * chunks * x.inner * x.state_
	first := m.tensor(s.batch*x.inner*x.state_, 4)
	states := x.product(m, h, faded, state)
	states = m.replace(states, m.cat(first, states))
	next := m.resized(states, states.n)
	m.drop(states)
	carried := m.unary(next, true, false)
	between := m.replace(next, carried)
	out := m.unary(sum, false, true)
	from := m.again(between)
	from.n = state
	past := x.product(m, c, from, inner)
	m.drop(from)
	off := m.mul(past, out)
	y := m.add(inside, off)
	y = m.replace(y, aliasOf(m, y))
	y = m.replace(y, m.add(y, skip))
	if padded > t {
		whole := y
		y = m.again(whole)
		y.n, y.from, y.leaf = t*x.inner, nil, nil
		m.unaryNode(y, whole, Temporary)
		m.drop(whole)
	}
	m.drop(h, step, a, b, c, skip, sum, decay, scores, weights, inside, left, faded, first, between, out, past, off)
	return y
}

// spread is keys or queries in float32, for every head.
func (x *mamba) spread(m *machine, v *value) *value {
	w := m.cast(v, 4)
	return m.replace(w, m.repeat(w, x.heads/x.groups, false))
}

// decays is exp(segment_sum(a)) of n elements: a mask that isn't kept, sums of those before, and another mask.
func (x *mamba) decays(m *machine, a *value, n int64) *value {
	masked := m.tensor(n, 4)
	m.unaryNode(masked, a, Temporary)
	sums := m.scale(masked)
	sums = m.replace(sums, m.scale(sums))
	m.drop(masked)
	return m.replace(sums, m.unary(sums, false, true))
}

// product is an einsum of two whose elements lie in another order than the product takes them: both are copied.
func (x *mamba) product(m *machine, a, b *value, n int64) *value {
	ca, cb := aliasOf(m, a), aliasOf(m, b)
	y := m.matmul(ca, cb, n)
	m.drop(ca, cb)
	return y
}

// times is one whose first factor is in order already.
func (x *mamba) times(m *machine, a, b *value, n int64) *value {
	cb := aliasOf(m, b)
	return m.replace(cb, m.matmul(a, cb, n))
}

// aliasOf is a copy whose gradient is its own.
func aliasOf(m *machine, x *value) *value {
	y := m.tensor(x.n, x.e)
	m.record([]*value{y}, []*value{x}, nil, m.alias)
	return y
}
