package network

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/internal/words"
)

// Block is one layer of a transformer, described by what it has. The order of
// its parts follows from that: norms before (attnIn) or after (attnOut) a
// part, or after the sum (postNorm, as in BERT); attention and feed-forward
// one after the other, or side by side (parallel).
type Block struct {
	attnIn, attnOut *norm
	Attention       *Attention // nil without
	crossIn         *norm
	Cross           *Attention // to an encoder's result, nil without
	mlpIn, mlpOut   *norm
	FF              FeedForward // nil without
	Mixer           Mixer       // instead of attention: a state-space or linear-attention layer
	postNorm        bool
	parallel        bool
	scaled          bool    // each part's result is multiplied by a constant before it is added
	wideSums        bool    // what parts are added to is float32 (residual_in_fp32)
	drop            float64 // dropout on each part's result
	// own is in the place of all parts.
	own      func(m *Machine, x *value, c context) *value
	more     []*Linear    // beside those of its parts
	Params   []*parameter // in the order in which files list them
	Adapters []*parameter // hung on its layers
}

// Mixer is a sequence layer that is not attention.
type Mixer interface {
	forward(m *Machine, x *value, s shape) *value
	Linears() []*Linear
	State(batch, width int64) int64 // bytes kept per batch while decoding
}

// context is what a block sees besides the stream.
type context struct {
	self   shape
	cross  shape
	memory *value // the encoder's output
	beside *beside
}

// Linears are all of its linear layers.
func (b *Block) Linears() []*Linear {
	ls := b.Attention.Linears()
	if b.Mixer != nil {
		ls = append(ls, b.Mixer.Linears()...)
	}
	ls = append(ls, b.Cross.Linears()...)
	if b.FF != nil {
		ls = append(ls, b.FF.Linears()...)
	}
	return append(ls, b.more...)
}

// Routed are the matrices of a block's experts, none without.
func (b *Block) Routed() []*parameter {
	if x, ok := b.FF.(*Experts); ok {
		return []*parameter{x.gateUp, x.down}
	}
	return nil
}

// PerToken is more than a block takes for one token of seq, in bytes, beside the stream.
func (b *Block) PerToken(seq float64) (w float64) {
	for _, l := range b.Linears() {
		w += 16 * float64(l.In+l.Out)
	}
	if a := b.Attention; a != nil {
		w += float64(a.Heads) * (seq*40 + float64(a.Width)*64)
	}
	if x, ok := b.FF.(*Experts); ok {
		w += float64(x.topK) * float64(x.inner+x.h) * 64
	}
	if x, ok := b.Mixer.(*Mamba); ok {
		w += float64(x.inner) * float64(x.state_+4) * 64
	}
	return w
}

// forward runs the block; it owns neither x nor the result's other names.
func (b *Block) forward(m *Machine, x *value, c context) *value {
	if b.own != nil {
		return b.own(m, x, c)
	}
	if b.parallel {
		return b.sideBySide(m, x, c)
	}
	h := m.Again(x)
	h.Sum = h.Sum && m.Modes.WholeGraph // else it is given to what is compiled
	if b.Attention != nil || b.Mixer != nil {
		h = m.Replace(h, b.part(m, h, b.attnIn, b.attnOut, func(v *value) *value { return b.along(m, v, c.self) }))
	}
	if b.Cross != nil && c.memory != nil { // a decoder alone leaves out what looks at an encoder
		h = m.Replace(h, b.part(m, h, b.crossIn, b.crossIn, func(v *value) *value {
			return b.Cross.forward(m, v, c.memory, c.cross)
		}))
	}
	if b.FF != nil {
		h = m.Replace(h, b.part(m, h, b.mlpIn, b.mlpOut, func(v *value) *value { return b.FF.forward(m, v) }))
	}
	return h
}

// along is what looks at other positions: attention, a mixer, or the sum of both.
func (b *Block) along(m *Machine, v *value, s shape) *value {
	if b.Mixer == nil {
		return b.Attention.forward(m, v, v, s)
	}
	y := b.Mixer.forward(m, v, s)
	if m.Pass.Inference && m.Modes.Cache == "dynamic" {
		m.Alloc(b.Mixer.State(s.batch, m.Width), words.KVCache)
	}
	if b.Attention != nil {
		y = m.into(y, adds{b.Attention.forward(m, v, v, s)})
	}
	return y
}

// part is x + f(norm(x)), with the norm where the family has it.
func (b *Block) part(m *Machine, x *value, in, out *norm, f func(*value) *value) *value {
	h := m.Again(x)
	if b.wideSums {
		h = m.Replace(h, m.Cast(x, m.Wide))
		x = m.Cast(x, 4)
		defer m.Drop(x)
	}
	h = m.into(h, when(!b.postNorm, in))
	whole := m.GatherTokens(h)
	y := f(whole)
	y = m.into(y, when(y.N == whole.N, m.ScatterTokens))
	m.Drop(whole, h)
	y = m.into(y, when(!b.postNorm && out != in, out))
	y = m.into(y, b.drop, when(b.scaled, m.Scale))
	return m.into(m.Replace(y, m.toStream(x, y)), when(b.postNorm, cmp.Or(out, in)))
}

// toStream adds a part's result. Where that is narrower than a stream that the compiler has
// not added up itself, the narrow one is kept for backward, in which the sum is made again.
func (m *Machine) toStream(x, y *value) *value {
	s := m.Add(x, y)
	if !m.Compiled {
		return s
	}
	if s.Sum = true; s.From != nil && y.Width < x.Width && !x.Sum && !m.Replay.Discard {
		s.Remade = true
		m.Become(y.Mem, words.Activations)
		s.From.Saved = append(s.From.Saved, m.Keep(y.Mem))
	}
	return s
}

func (b *Block) sideBySide(m *Machine, x *value, c context) *value {
	h := m.of(x, b.attnIn, m.GatherTokens)
	a := m.into(b.Attention.forward(m, h, h, c.self), b.drop)
	g := m.Again(h)
	if b.mlpIn != nil {
		g = m.Replace(g, m.of(x, b.mlpIn, m.GatherTokens))
	}
	m.Drop(h)
	s := m.into(g, b.FF, b.drop, adds{a})
	return m.into(s, when(s.N > x.N, m.ScatterTokens), plus{x})
}

// Trains says whether any of some weights is trained.
func Trains(qs []*parameter) bool {
	return slices.ContainsFunc(qs, func(q *parameter) bool { return q.Trainable })
}
