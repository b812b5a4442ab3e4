package network

import "github.com/vramscope/vramscope/internal/words"

// embeddings turns tokens into the stream. Vectors keep names until the model returns.
func (r *Step) embeddings(mod *Model, b Batch, seq int64) (x *value, names []*value) {
	r.Around.Table(mod, func() *value {
		x, names = r.embedded(mod, b, seq)
		return x
	})
	return x, names
}

func (r *Step) embedded(mod *Model, b Batch, seq int64) (*value, []*value) {
	m := r.M
	t := r.M.Pass.Batch * seq
	switch {
	case mod.Received:
		return r.Around.Arriving(), nil
	case mod.Sound != nil:
		return r.sound(mod, b), nil
	case mod.Waves != nil:
		return r.sounded(mod, b)
	case mod.Patch != nil:
		return r.image(mod, b), nil
	}
	width := mod.Embed.Shape[1]
	x := r.Around.Unit(mod.Embed, nil, func(*value) *value { return m.Embedding(mod.Embed, t, width, b.IDs) })
	x = m.Replace(x, m.embedAdapted(x, mod.embedAdapter, t, b.IDs))
	x = m.into(x, m.ScatterTokens, when(mod.scaled, m.Scale))
	names := []*value{m.Again(x)}
	if mod.projectIn != nil {
		x, width = m.Replace(x, m.apply(x, mod.projectIn)), mod.Hidden
	}
	x, names = placed(r, mod, x, names, seq, width)
	x = m.into(x, mod.embedNorm)
	if mod.Deberta != nil {
		x = m.Replace(x, perToken(m, x, t))
	}
	x = m.into(x, mod.embedDrop)
	if mod.bidirectional() { // embeddings are a module of their own, whose names go when it returns
		m.Drop(names...)
		names = nil
	}
	return m.Replace(x, m.apply(x, mod.widen)), names
}

// placed adds what segments and learned positions have in their tables.
func placed(r *Step, mod *Model, x *value, names []*value, seq, width int64) (*value, []*value) {
	m := r.M
	plus := func(p *parameter, rows int64, index *storage) {
		e := m.Embedding(p, rows, width, index)
		names = append(names, e)
		x = m.Replace(x, m.Add(x, e))
	}
	if mod.types != nil {
		plus(mod.types, r.M.Pass.Batch*seq, nil)
	}
	switch {
	case mod.Position != nil:
		ps := m.Alloc(8*seq, words.Temporary)
		plus(mod.Position, seq, ps)
		m.Release(ps)
	case mod.Deberta != nil: // zeros in the place of positions
		names = append(names, m.Tensor(r.M.Pass.Batch*seq*width, m.Wide))
	}
	return x, names
}

// masksOf makes masks: one for the layers that see everything, one for those with a window.
func (s *pass) masksOf(seq int64) []*storage {
	m, c, at := s.m, &s.c, s.mod.First()
	if at == nil {
		return nil
	}
	pairs := m.Pass.Batch * seq * seq
	kinds, window := s.mod.views()
	switch {
	case at.relative != nil:
		return seenPairs(s.r, seq, at.relative.span > 0)
	case at.WritesScores(&m.Modes):
		return s.scoreMasks(kinds, pairs)
	case m.Modes.Flash && !at.alibi:
		return nil
	case at.alibi:
		c.self.masked = m.Modes.Padding || at.masked
		c.self.mask = m.Alloc(pairs*at.Heads*m.Wide, words.Temporary)
		return []*storage{c.self.mask}
	case m.Compiled && !at.bidirectional: // made whether or not it says more than "causal", and shared by all layers
		c.self.masked, c.self.mask = true, m.Alloc(pairs*m.Width, words.Temporary)
		return []*storage{c.self.mask}
	case m.Modes.Padding || at.masked:
		c.self.masked = true
		return s.masksFor(kinds, pairs)
	case window > 0 && window <= seq:
		return s.masksFor(1, pairs)
	}
	return nil
}

// scoreMasks are those of scores that are written out.
func (s *pass) scoreMasks(kinds, pairs int64) []*storage {
	if s.mod.bidirectional() && !s.r.M.Modes.Padding {
		return nil
	}
	ms := s.masksFor(kinds, pairs*s.m.Wide)
	s.c.self.mask = ms[0]
	return ms
}

// masksFor makes one of so many bytes for each kind of layer.
func (s *pass) masksFor(kinds, bytes int64) (ms []*storage) {
	for range kinds {
		ms = append(ms, s.m.Alloc(bytes, words.Temporary))
	}
	return ms
}

// views counts the kinds of layers, and gives the last one's window.
func (mod *Model) views() (kinds, window int64) {
	var full int64
	for _, b := range mod.Blocks {
		if b.Attention != nil && b.Attention.Window > 0 {
			window = b.Attention.Window
		} else if b.Attention != nil {
			full = 1
		}
	}
	return full + min(window, 1), window
}

// First is the first attention there is, nil without.
func (mod *Model) First() *Attention {
	for _, b := range mod.Blocks {
		if b.Attention != nil {
			return b.Attention
		}
	}
	return nil
}

func (mod *Model) bidirectional() bool { a := mod.First(); return a != nil && a.bidirectional }

// toCache hands keys and values to a cache, which copies them.
func (a *Attention) toCache(m *Machine, k, v *value) (*value, *value) {
	if m.Pass.Inference && m.Modes.Cache != "none" {
		e := k.Width
		return a.store(m, k, e), a.store(m, v, e)
	}
	if !m.Modes.FillsCache || !m.Grad || m.Replay.Discard || m.Replay.Until > 0 {
		return k, v
	}
	wide := k.Width // the cache takes the keys' type; rotated keys are float32 under autocast
	put := func(x *value) *value {
		y := m.Tensor(x.N, max(x.Width, wide))
		m.Record([]*value{y}, []*value{x}, nil, func(g []*storage) []*storage {
			return []*storage{m.Fit(m.Keep(g[0]), x.N*x.Width, words.Temporary)}
		})
		m.Become(y.Mem, words.KVCache) // the cache's, though backward needs it too
		m.Cached = append(m.Cached, m.Keep(y.Mem))
		return m.Replace(x, y)
	}
	return put(k), put(v)
}

// tables are cos and sin of every position, kept by the first layers that use them.
func (m *Machine) tables(seq, dim int64) []*storage {
	if dim == 0 {
		return nil
	}
	c := words.Activations
	if !m.Grad {
		c = words.Temporary
	}
	return []*storage{m.Alloc(seq*dim*m.Wide, c), m.Alloc(seq*dim*m.Wide, c)}
}

// store puts keys or values into the cache, which has the place already where it is static.
func (a *Attention) store(m *Machine, x *value, wide int64) *value {
	if m.Modes.Cache == "static" {
		return x
	}
	e := max(x.Width, wide)
	n := x.N * e
	if m.Modes.CacheBytes != nil {
		n = m.Modes.CacheBytes(x.N, a.Width)
	}
	st := m.Alloc(n, words.KVCache)
	m.Cached = append(m.Cached, st)
	if m.Modes.CacheBytes != nil { // attention reads it back in the compute type
		return x
	}
	y := &value{Mem: m.Keep(st), N: x.N, Width: e}
	m.Drop(x)
	return y
}
