package budget

// block is one layer of a transformer, described by what it has. The order of
// its parts follows from that: norms before (attnIn) or after (attnOut) a
// part, or after the sum (postNorm, as in BERT); attention and feed-forward
// one after the other, or side by side (parallel).
type block struct {
	attnIn, attnOut *norm
	attn            *attention
	crossIn         *norm
	cross           *attention
	mlpIn, mlpOut   *norm
	ff              feedForward
	mixer           mixer // instead of attention: a state-space or linear-attention layer
	postNorm        bool
	parallel        bool
	scaled          bool    // each part's result is multiplied by a constant before it is added
	wideSums        bool    // what parts are added to is float32 (residual_in_fp32)
	drop            float64 // dropout on each part's result
	// own is in the place of all parts.
	own      func(m *machine, x *value, c context) *value
	params   []*parameter
	adapters []*parameter // hung on its layers
}

// mixer is a sequence layer that is not attention.
type mixer interface {
	forward(m *machine, x *value, s shape) *value
	linears() []*linear
	state(batch, width int64) int64 // bytes kept per batch while decoding
}

// context is what a block sees besides the stream.
type context struct {
	self   shape
	cross  shape
	memory *value // the encoder's output
}

func (b *block) linears() []*linear {
	var ls []*linear
	if b.attn != nil {
		ls = append(ls, b.attn.linears()...)
	}
	if b.mixer != nil {
		ls = append(ls, b.mixer.linears()...)
	}
	if b.cross != nil {
		ls = append(ls, b.cross.linears()...)
	}
	if b.ff != nil {
		ls = append(ls, b.ff.linears()...)
	}
	return ls
}

// forward runs the block; it owns neither x nor the result's other names.
func (b *block) forward(m *machine, x *value, c context) *value {
	if b.own != nil {
		return b.own(m, x, c)
	}
	if b.parallel {
		return b.sideBySide(m, x, c)
	}
	h := m.again(x)
	h.sum = h.sum && m.opts.compiledWhole() // else it is given to what is compiled
	if b.attn != nil || b.mixer != nil {
		h = m.replace(h, b.part(m, h, b.attnIn, b.attnOut, func(v *value) *value { return b.along(m, v, c.self) }))
	}
	if b.cross != nil && c.memory != nil { // a decoder alone leaves out what looks at an encoder
		h = m.replace(h, b.part(m, h, b.crossIn, b.crossIn, func(v *value) *value {
			return b.cross.forward(m, v, c.memory, c.cross)
		}))
	}
	if b.ff != nil {
		h = m.replace(h, b.part(m, h, b.mlpIn, b.mlpOut, func(v *value) *value { return b.ff.forward(m, v) }))
	}
	return h
}

// along is what looks at other positions: attention, a mixer, or the sum of both.
func (b *block) along(m *machine, v *value, s shape) *value {
	if b.mixer == nil {
		return b.attn.forward(m, v, v, s)
	}
	y := b.mixer.forward(m, v, s)
	if m.opts.Inference && m.opts.Cache == "dynamic" {
		m.alloc(b.mixer.state(s.batch, m.width), KVCache)
	}
	if b.attn != nil {
		z := b.attn.forward(m, v, v, s)
		y = m.replace(y, m.add(y, z))
		m.drop(z)
	}
	return y
}

// part is x + f(norm(x)), with the norm where the family has it.
func (b *block) part(m *machine, x *value, in, out *norm, f func(*value) *value) *value {
	h := m.again(x)
	if b.wideSums {
		h = m.replace(h, m.cast(x, m.wide))
		x = m.cast(x, 4)
		defer m.drop(x)
	}
	if in != nil && !b.postNorm {
		h = m.replace(h, in.forward(m, h))
	}
	whole := m.gatherTokens(h)
	y := f(whole)
	if y.n == whole.n {
		y = m.replace(y, m.scatterTokens(y))
	}
	m.drop(whole, h)
	if out != nil && !b.postNorm && out != in {
		y = m.replace(y, out.forward(m, y))
	}
	y = m.replace(y, m.dropout(y, b.drop))
	if b.scaled {
		y = m.replace(y, m.scale(y))
	}
	s := m.replace(y, m.toStream(x, y))
	if b.postNorm {
		n := out
		if n == nil {
			n = in
		}
		s = m.replace(s, n.forward(m, s))
	}
	return s
}

// toStream adds a part's result. Where that is narrower than a stream that the compiler has
// not added up itself, the narrow one is kept for backward, in which the sum is made again.
func (m *machine) toStream(x, y *value) *value {
	s := m.add(x, y)
	if !m.compiled {
		return s
	}
	if s.sum = true; s.from != nil && y.e < x.e && !x.sum && !m.replay.discard {
		s.remade = true
		m.become(y.st, Activations)
		s.from.saved = append(s.from.saved, m.keep(y.st))
	}
	return s
}

func (b *block) sideBySide(m *machine, x *value, c context) *value {
	h := b.attnIn.forward(m, x)
	h = m.replace(h, m.gatherTokens(h))
	a := b.attn.forward(m, h, h, c.self)
	a = m.replace(a, m.dropout(a, b.drop))
	g := m.again(h)
	if b.mlpIn != nil {
		g = m.replace(g, b.mlpIn.forward(m, x))
		g = m.replace(g, m.gatherTokens(g))
	}
	m.drop(h)
	f := m.replace(g, b.ff.forward(m, g))
	f = m.replace(f, m.dropout(f, b.drop))
	s := m.add(f, a)
	m.drop(f, a)
	if s.n > x.n {
		s = m.replace(s, m.scatterTokens(s))
	}
	y := m.replace(s, m.add(s, x))
	return y
}
