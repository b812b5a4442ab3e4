package network

import "github.com/vramscope/vramscope/internal/words"

// chunked is mamba-2's mixer as PyTorch runs it where no kernel is installed: scores of a chunk's tokens with each other, as
// in attention, the states between chunks, and both in float32 with keys and queries for every head.
func (x *Mamba) chunked(m *Machine, in *value, s shape) *value {
	t := in.N / x.h
	di, bc := x.inner, x.groups*x.state_
	padding := m.Modes.Padding
	p := m.of(in, when(padding, m.Scale), x.in)
	parts := m.Split(p, t*di, t*(di+2*bc), t*x.heads)
	gate := parts[0]
	wide := m.Cast(parts[1], x.conv.Val.Width)
	conv := m.into(m.Replace(wide, x.convolve(m, wide, t, s.batch)), byInput, when(padding, m.Scale))
	hbc := m.Split(conv, t*di, t*bc, t*bc)
	y := x.scan(m, hbc, parts[2], s)
	n := m.into(y, multiplies{m.of(gate, 4, byInput)}, x.norm)
	w := m.Cast(n, in.Width)
	z := m.apply(w, x.out)
	m.Drop(w, n, conv, p)
	m.Drop(hbc...)
	m.Drop(parts...)
	return z
}

// scan is mamba2_chunk_scan (modeling_mamba2.py), name by name.
func (x *Mamba) scan(m *Machine, hbc []*value, dt *value, s shape) *value {
	t, chunks := hbc[0].N/x.inner, (s.queries+x.chunk-1)/x.chunk
	padded := s.batch * chunks * x.chunk
	heads, inner, keys := padded*x.heads, padded*x.inner, padded*x.heads*x.state_
	step := m.of(dt, plus{x.dtBias.Val}, dt.Width, m.WideUnderAutocast)
	step = m.into(step, byInput, byInput) // softplus, clamp
	h := m.Cast(hbc[0], 4)
	b, c := x.spread(m, hbc[1]), x.spread(m, hbc[2])
	ahead := m.Gather(h, inner)
	skip := m.Replace(ahead, m.Mul(ahead, x.skip.Val))
	f := m.Cast(step, 4)
	h = m.into(h, times{f})
	a := m.into(f, multiplies{m.of(x.a.Val, 4, byOutput)})
	old := []*value{h, a, b, c}
	h, a, b, c = m.Gather(h, inner), m.Gather(a, heads), m.Gather(b, keys), m.Gather(c, keys)
	m.Drop(old...)
	sum := m.Scale(a)
	decay := x.decays(m, a, heads*x.chunk)
	scores := x.product(m, c, b, heads*x.chunk)
	weights := m.Mul(scores, decay)
	inside := x.times(m, weights, h, inner)
	left := m.of(sum, m.Scale, byOutput)
	faded := m.Mul(b, left)
	state := s.batch * chunks * x.inner * x.state_
	first := m.Tensor(s.batch*x.inner*x.state_, 4)
	states := x.product(m, h, faded, state)
	states = m.Replace(states, m.Cat(first, states))
	next := m.Gather(states, states.N)
	m.Drop(states)
	carried := m.Unary(next, true, false)
	between := m.Replace(next, carried)
	out := m.Unary(sum, false, true)
	from := m.Again(between)
	from.N = state
	past := x.product(m, c, from, inner)
	m.Drop(from)
	off := m.Mul(past, out)
	y := m.of(inside, plus{off}, m.Shift, plus{skip})
	if padded > t {
		whole := y
		y = m.View(whole, t*x.inner)
		m.UnaryNode(y, whole, words.Temporary)
		m.Drop(whole)
	}
	m.Drop(h, step, a, b, c, skip, sum, decay, scores, weights, inside, left, faded, first, between, out, past, off)
	return y
}

// spread is keys or queries in float32, for every head.
func (x *Mamba) spread(m *Machine, v *value) *value {
	w := m.Cast(v, 4)
	return m.Replace(w, m.repeat(w, x.heads/x.groups, false))
}

// decays is exp(segment_sum(a)) of n elements: a mask that isn't kept, sums of those before, and another mask.
func (x *Mamba) decays(m *Machine, a *value, n int64) *value {
	masked := m.Made(a, n, 4, words.Temporary)
	sums := m.of(masked, m.Scale, m.Scale)
	m.Drop(masked)
	return m.into(sums, byOutput)
}

// product is an einsum of two whose elements lie in another order than the product takes them: both are copied.
func (x *Mamba) product(m *Machine, a, b *value, n int64) *value {
	ca := m.Shift(a)
	return m.Replace(ca, x.times(m, ca, b, n))
}

// times is one whose first factor is in order already.
func (x *Mamba) times(m *Machine, a, b *value, n int64) *value {
	cb := m.Shift(b)
	return m.Replace(cb, m.Matmul(a, cb, n))
}
