package network

import (
	"fmt"
	"slices"
)

// cutter makes one rank's part of a model as Megatron-LM and vLLM do: norms, routers and narrow latents stay whole.
type cutter struct {
	t       int64
	ep, etp int64   // expert-parallel ranks, and those that an expert is cut over
	load    float64 // of this rank's experts
	done    map[*parameter]bool
}

// Divide makes one rank's part of the model: of t tensor-parallel ranks, ep expert-parallel ones, and etp that each expert is cut
// over, where this one has load times as many tokens for its experts as an even share. It says which parameters were divided.
func (m *Model) Divide(t, ep, etp int64, load float64) (done map[*parameter]bool, err error) {
	c := &cutter{t: t, ep: ep, etp: etp, load: load, done: map[*parameter]bool{}}
	blocks := slices.Clone(m.Blocks)
	if m.Encoder != nil {
		blocks = append(blocks, m.Encoder.Blocks...)
	}
	if m.Vision != nil && m.Vision.divides(t) {
		blocks = append(blocks, m.Vision.Blocks...)
	}
	defer fits(&err)
	for _, b := range blocks {
		c.block(b)
	}
	if t == 1 {
		return c.done, nil
	}
	c.pad(m.Embed)
	if h := m.Head; h != nil && m.Task != TaskContrast {
		h.Out = (h.Out + t - 1) / t
		c.pad(h.Weight)
		c.pad(h.Bias)
	}
	c.pad(m.rest())
	return c.done, nil
}

// fail says why a model cannot be divided.
func (c *cutter) fail(format string, args ...any) { panic(unfit{fmt.Errorf(format, args...)}) }

// cut divides one dimension, of a tensor that two modules share once.
func (c *cutter) cut(q *parameter, dim int, what string) {
	if q != nil && !c.done[q] {
		c.cutBy(q, dim, c.t, what)
	}
}

func (c *cutter) cutBy(q *parameter, dim int, by int64, what string) {
	c.done[q] = true
	if dim >= len(q.Shape) {
		return
	}
	if q.Shape[dim]%by != 0 {
		c.fail("%s: %d of %s cannot be divided by %d", q.Name, q.Shape[dim], what, by)
	}
	q.Shape[dim] /= by
}

// pad divides what is padded until it can be: the rows of a vocabulary.
func (c *cutter) pad(q *parameter) {
	if q != nil && !c.done[q] {
		c.done[q] = true
		q.Shape[0] = (q.Shape[0] + c.t - 1) / c.t
	}
}

// resize gives a layer another number of outputs, where they are not simply divided.
func (c *cutter) resize(l *Linear, out int64) {
	l.Out = out
	l.Weight.Shape = []int64{out, l.In}
	c.done[l.Weight] = true
	if l.Bias != nil {
		l.Bias.Shape = []int64{out}
	}
}

// column divides the outputs of layers, row the inputs of one.
func (c *cutter) column(ls ...*Linear) {
	for _, l := range ls {
		if l != nil && c.t > 1 {
			c.side(l, &l.Out, 0, "outputs")
			c.cut(l.Bias, 0, "outputs")
		}
	}
}

func (c *cutter) row(l *Linear) {
	if l != nil && c.t > 1 {
		c.side(l, &l.In, 1, "inputs")
	}
}

// side divides n outputs or inputs, which are a dimension of the weight.
func (c *cutter) side(l *Linear, n *int64, dim int, what string) {
	if *n%c.t != 0 {
		c.fail("--tp %d does not divide %s's %d %s", c.t, l.Weight.Name, *n, what)
	}
	if l.turned() {
		dim = 1 - dim
	}
	*n /= c.t
	c.cut(l.Weight, dim, what)
}

func (c *cutter) block(b *Block) {
	for _, a := range []*Attention{b.Attention, b.Cross} {
		switch {
		case a == nil:
		case a.Heads%c.t != 0:
			c.fail("--tp %d does not divide the %d attention heads", c.t, a.Heads)
		case a.KV > 1 && a.KV%c.t != 0 && c.t%a.KV != 0:
			c.fail("--tp %d and %d key-value heads do not fit each other", c.t, a.KV)
		default:
			c.attention(a)
		}
	}
	if x, ok := b.Mixer.(*Mamba); ok && c.t > 1 {
		c.mixer(x)
	}
	c.feedForward(b.FF)
}

func (c *cutter) feedForward(f FeedForward) {
	switch f := f.(type) {
	case *mlp:
		c.column(f.gate, f.up)
		c.row(f.down)
	case *Experts:
		c.experts(f)
		c.feedForward(f.shared)
	}
}

func (c *cutter) experts(f *Experts) {
	switch {
	case f.count%c.ep != 0:
		c.fail("--ep %d does not divide the %d experts", c.ep, f.count)
	case f.inner%c.etp != 0:
		c.fail("--tp %d does not divide the experts' inner size of %d", c.etp, f.inner)
	}
	f.local, f.sharing, f.load = c.ep, c.t/c.etp, c.load
	inner := []int{1, 2, 1, -1} // the inner size's place in each
	if f.oss {
		inner[0], inner[1] = 2, 1
	}
	for i, q := range []*parameter{f.gateUp, f.down, f.upBias, f.downBias} {
		if q == nil {
			continue
		}
		c.cutBy(q, 0, c.ep, "experts")
		if inner[i] >= 0 {
			c.cutBy(q, inner[i], c.etp, "inner size")
		}
	}
	f.inner /= c.etp
}

func (c *cutter) attention(a *Attention) {
	t := c.t
	defer c.row(a.o)
	if l := a.latent; l != nil {
		c.column(l.qb, l.kvb)
		if l.qa == nil {
			c.column(a.q)
		} else {
			c.done[l.qa.Weight] = true
		}
		c.done[l.kva.Weight] = true
		a.Heads, a.KV = a.Heads/t, a.KV/t
		return
	}
	switch few := a.KV < t; { // then each rank keeps the one head that its queries use
	case few && a.fused:
		c.resize(a.q, a.Heads*a.Width/t+2*a.Width)
	case few:
		c.column(a.q)
		c.resize(a.k, a.k.Out/a.KV)
		c.resize(a.v, a.v.Out/a.KV)
	case a.fused:
		c.column(a.q)
	default:
		c.column(a.q, a.k, a.v)
	}
	a.Heads, a.KV = a.Heads/t, max(a.KV/t, 1)
}

// mixer divides channels, heads and groups of a state-space layer; a single group is on every rank.
func (c *cutter) mixer(x *Mamba) {
	t := c.t
	for _, part := range []struct {
		divided bool
		n       int64
		what    string
	}{{true, x.inner, "channels"}, {true, x.heads, "heads"}, {x.Second && x.groups > 1, x.groups, "groups"},
		{x.Delta, x.keys / x.state_, "key heads"}} {
		if part.divided && part.n%t != 0 {
			c.fail("--tp %d does not divide the mixers' %d %s", t, part.n, part.what)
		}
	}
	x.inner, x.heads, x.keys = x.inner/t, x.heads/t, x.keys/t
	if x.Second {
		x.groups = max(x.groups/t, 1)
		channels := x.inner + 2*x.groups*x.state_
		c.resize(x.in, x.inner+channels+x.heads)
		for _, q := range []*parameter{x.conv, x.convBias} {
			if q != nil {
				q.Shape[0], c.done[q] = channels, true
			}
		}
		if x.norm != nil {
			n := *x.norm // over the rank's own channels
			n.size = x.inner
			x.norm = &n
			c.cut(n.weight, 0, "channels")
		}
	} else {
		c.column(x.in)
	}
	c.column(x.z, x.dt)
	if x.Delta {
		c.column(x.x)
	} else {
		c.row(x.x)
	}
	for _, q := range []*parameter{x.conv, x.convBias, x.a, x.skip, x.dtBias} {
		c.cut(q, 0, "channels")
	}
	c.row(x.out)
}

// divides says whether a vision encoder's heads and inner sizes can be.
func (m *Model) divides(t int64) bool {
	for _, b := range m.Blocks {
		if f, ok := b.FF.(*mlp); !ok || f.up.Out%t != 0 || b.Attention == nil || b.Attention.Heads%t != 0 {
			return false
		}
	}
	return true
}

// turned says whether a weight is stored transposed (gpt2).
func (l *Linear) turned() bool {
	s := l.Weight.Shape
	return len(s) == 2 && s[0] == l.In && s[1] == l.Out && l.In != l.Out
}
