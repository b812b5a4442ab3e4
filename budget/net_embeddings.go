package budget

// embeddings turns tokens into the stream. The word and position vectors
// keep a name of their own until the model returns.
func (r *run) embeddings(mod *model, b batchOf, seq int64) (x *value, names []*value) {
	r.fetched(r.p.tableBytes(mod), nil, func() *value {
		x, names = r.embedded(mod, b, seq)
		return x
	})
	return x, names
}

// arriving is what a pipeline's stage receives.
func (r *run) arriving() *value {
	m, e := r.m, r.p.wide
	n := r.boundary() / e
	here := n
	if r.p.buffersAhead() { // it lies in the buffer
		here = 0
	}
	x := m.Tensor(here, e)
	x.N = n
	if r.p.collectsOutputs() && !r.mod.sends {
		r.outputs = append(r.outputs, m.Keep(x.Mem))
	}
	m.Entry(x)
	return x
}

func (r *run) embedded(mod *model, b batchOf, seq int64) (*value, []*value) {
	m := r.m
	t := r.p.Batch * seq
	switch {
	case mod.received:
		return r.arriving(), nil
	case mod.conv != nil:
		return r.sound(mod, b), nil
	case mod.waves != nil:
		return r.sounded(mod, b)
	case mod.patch != nil:
		return r.image(mod, b), nil
	}
	width := mod.embed.Shape[1]
	x := r.unit(mod.embed, nil, func(*value) *value { return m.Embedding(mod.embed, t, width, b.ids) })
	x = m.Replace(x, m.embedAdapted(x, mod.embedAdapter, t, b.ids))
	x = m.Replace(x, m.ScatterTokens(x))
	if mod.scaled {
		x = m.Replace(x, m.Scale(x))
	}
	names := []*value{m.Again(x)}
	if mod.projectIn != nil {
		x, width = m.Replace(x, m.apply(x, mod.projectIn)), mod.hidden
	}
	x, names = placed(r, mod, x, names, seq, width)
	x = m.Replace(x, mod.embedNorm.forward(m, x))
	if mod.deberta != nil {
		x = m.Replace(x, perToken(m, x, t))
	}
	x = m.Replace(x, m.Dropout(x, mod.embedDrop))
	if mod.bidirectional() { // embeddings are a module of their own, whose names go when it returns
		m.Drop(names...)
		names = nil
	}
	return m.Replace(x, m.apply(x, mod.widen)), names
}

// placed adds what segments and learned positions have in their tables.
func placed(r *run, mod *model, x *value, names []*value, seq, width int64) (*value, []*value) {
	m := r.m
	plus := func(p *parameter, rows int64, index *storage) {
		e := m.Embedding(p, rows, width, index)
		names = append(names, e)
		x = m.Replace(x, m.Add(x, e))
	}
	if mod.types != nil {
		plus(mod.types, r.p.Batch*seq, nil)
	}
	switch {
	case mod.position != nil:
		ps := m.Alloc(8*seq, Temporary)
		plus(mod.position, seq, ps)
		m.Release(ps)
	case mod.deberta != nil: // zeros in the place of positions
		names = append(names, m.Tensor(r.p.Batch*seq*width, m.Wide))
	}
	return x, names
}

// masksOf makes the masks that eager attention, padding and windows need: one
// for the layers that see everything, one for those with a window.
func (s *pass) masksOf(seq int64) []*storage {
	m, p, c, at := s.m, s.r.p, &s.c, s.mod.first()
	if at == nil {
		return nil
	}
	pairs := p.Batch * seq * seq
	kinds, window := s.mod.views()
	switch {
	case at.relative != nil:
		return seenPairs(s.r, seq, at.relative.span > 0)
	case at.writesScores(p):
		return s.scoreMasks(kinds, pairs)
	case p.flash() && !at.alibi:
		return nil
	case at.alibi:
		c.self.masked = p.Padding || at.masked
		c.self.mask = m.Alloc(pairs*at.heads*m.Wide, Temporary)
		return []*storage{c.self.mask}
	case m.Compiled && !at.bidirectional: // made whether or not it says more than "causal", and shared by all layers
		c.self.masked, c.self.mask = true, m.Alloc(pairs*m.Width, Temporary)
		return []*storage{c.self.mask}
	case p.Padding || at.masked:
		c.self.masked = true
		return s.masksFor(kinds, pairs)
	case window > 0 && window <= seq:
		return s.masksFor(1, pairs)
	}
	return nil
}

// scoreMasks are those of scores that are written out.
func (s *pass) scoreMasks(kinds, pairs int64) []*storage {
	if s.mod.bidirectional() && !s.r.p.Padding {
		return nil
	}
	ms := s.masksFor(kinds, pairs*s.m.Wide)
	s.c.self.mask = ms[0]
	return ms
}

// masksFor makes one of so many bytes for each kind of layer.
func (s *pass) masksFor(kinds, bytes int64) (ms []*storage) {
	for range kinds {
		ms = append(ms, s.m.Alloc(bytes, Temporary))
	}
	return ms
}

// views counts the kinds of layers, those that see everything and those with a window,
// the last of which is given.
func (mod *model) views() (kinds, window int64) {
	var full int64
	for _, b := range mod.blocks {
		if b.attn != nil && b.attn.window > 0 {
			window = b.attn.window
		} else if b.attn != nil {
			full = 1
		}
	}
	return full + min(window, 1), window
}

func (mod *model) first() *attention {
	for _, b := range mod.blocks {
		if b.attn != nil {
			return b.attn
		}
	}
	return nil
}

func (mod *model) bidirectional() bool { a := mod.first(); return a != nil && a.bidirectional }

// toCache hands keys and values to a cache, which copies them; without one
// they stay as they are.
func (a *attention) toCache(m *machine, k, v *value) (*value, *value) {
	if m.opts.Inference && m.opts.Cache != "none" {
		e := k.Width
		return m.store(k, e), m.store(v, e)
	}
	if !m.opts.UseCache || !m.Grad || m.Replay.Discard || m.Replay.Until > 0 {
		return k, v
	}
	wide := k.Width // the cache takes the keys' type; rotated keys are float32 under autocast
	put := func(x *value) *value {
		y := m.Tensor(x.N, max(x.Width, wide))
		m.Record([]*value{y}, []*value{x}, nil, func(g []*storage) []*storage {
			return []*storage{m.Fit(m.Keep(g[0]), x.N*x.Width, Temporary)}
		})
		m.Become(y.Mem, KVCache) // the cache's, though backward needs it too
		m.cached = append(m.cached, m.Keep(y.Mem))
		return m.Replace(x, y)
	}
	return put(k), put(v)
}

// tables are cos and sin of every position, kept by the first layers that use them.
func (m *machine) tables(seq, dim int64) []*storage {
	if dim == 0 {
		return nil
	}
	c := Activations
	if !m.Grad {
		c = Temporary
	}
	return []*storage{m.Alloc(seq*dim*m.Wide, c), m.Alloc(seq*dim*m.Wide, c)}
}
