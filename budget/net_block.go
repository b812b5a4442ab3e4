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
	more     []*linear // beside those of its parts
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
	beside *beside
}

func (b *block) linears() []*linear {
	ls := b.attn.linears()
	if b.mixer != nil {
		ls = append(ls, b.mixer.linears()...)
	}
	ls = append(ls, b.cross.linears()...)
	if b.ff != nil {
		ls = append(ls, b.ff.linears()...)
	}
	return append(ls, b.more...)
}

// forward runs the block; it owns neither x nor the result's other names.
func (b *block) forward(m *machine, x *value, c context) *value {
	if b.own != nil {
		return b.own(m, x, c)
	}
	if b.parallel {
		return b.sideBySide(m, x, c)
	}
	h := m.Again(x)
	h.Sum = h.Sum && m.opts.compiledWhole() // else it is given to what is compiled
	if b.attn != nil || b.mixer != nil {
		h = m.Replace(h, b.part(m, h, b.attnIn, b.attnOut, func(v *value) *value { return b.along(m, v, c.self) }))
	}
	if b.cross != nil && c.memory != nil { // a decoder alone leaves out what looks at an encoder
		h = m.Replace(h, b.part(m, h, b.crossIn, b.crossIn, func(v *value) *value {
			return b.cross.forward(m, v, c.memory, c.cross)
		}))
	}
	if b.ff != nil {
		h = m.Replace(h, b.part(m, h, b.mlpIn, b.mlpOut, func(v *value) *value { return b.ff.forward(m, v) }))
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
		m.Alloc(b.mixer.state(s.batch, m.Width), KVCache)
	}
	if b.attn != nil {
		z := b.attn.forward(m, v, v, s)
		y = m.Replace(y, m.Add(y, z))
		m.Drop(z)
	}
	return y
}

// part is x + f(norm(x)), with the norm where the family has it.
func (b *block) part(m *machine, x *value, in, out *norm, f func(*value) *value) *value {
	h := m.Again(x)
	if b.wideSums {
		h = m.Replace(h, m.Cast(x, m.Wide))
		x = m.Cast(x, 4)
		defer m.Drop(x)
	}
	if in != nil && !b.postNorm {
		h = m.Replace(h, in.forward(m, h))
	}
	whole := m.GatherTokens(h)
	y := f(whole)
	if y.N == whole.N {
		y = m.Replace(y, m.ScatterTokens(y))
	}
	m.Drop(whole, h)
	if out != nil && !b.postNorm && out != in {
		y = m.Replace(y, out.forward(m, y))
	}
	y = m.Replace(y, m.Dropout(y, b.drop))
	if b.scaled {
		y = m.Replace(y, m.Scale(y))
	}
	s := m.Replace(y, m.toStream(x, y))
	if b.postNorm {
		n := out
		if n == nil {
			n = in
		}
		s = m.Replace(s, n.forward(m, s))
	}
	return s
}

// toStream adds a part's result. Where that is narrower than a stream that the compiler has
// not added up itself, the narrow one is kept for backward, in which the sum is made again.
func (m *machine) toStream(x, y *value) *value {
	s := m.Add(x, y)
	if !m.Compiled {
		return s
	}
	if s.Sum = true; s.From != nil && y.Width < x.Width && !x.Sum && !m.Replay.Discard {
		s.Remade = true
		m.Become(y.Mem, Activations)
		s.From.Saved = append(s.From.Saved, m.Keep(y.Mem))
	}
	return s
}

func (b *block) sideBySide(m *machine, x *value, c context) *value {
	h := b.attnIn.forward(m, x)
	h = m.Replace(h, m.GatherTokens(h))
	a := b.attn.forward(m, h, h, c.self)
	a = m.Replace(a, m.Dropout(a, b.drop))
	g := m.Again(h)
	if b.mlpIn != nil {
		g = m.Replace(g, b.mlpIn.forward(m, x))
		g = m.Replace(g, m.GatherTokens(g))
	}
	m.Drop(h)
	f := m.Replace(g, b.ff.forward(m, g))
	f = m.Replace(f, m.Dropout(f, b.drop))
	s := m.Add(f, a)
	m.Drop(f, a)
	if s.N > x.N {
		s = m.Replace(s, m.ScatterTokens(s))
	}
	y := m.Replace(s, m.Add(s, x))
	return y
}
