package budget

import (
	"fmt"

	"github.com/vramscope/vramscope/budget/autograd"
)

// expertRanks is how experts lie on the GPUs of a stage: each on one of the
// expert-parallel ranks, cut there over as many of the tensor-parallel ranks
// as the GPUs suffice for (with --tp 8 --ep 8 on 8 GPUs over none: each GPU
// has whole experts, as vLLM lays them). copies is how many ranks have the same.
func (s Setting) expertRanks() (tp, copies int64) {
	n := s.GPUs / s.PP / s.EP
	tp = gcd(s.TP, n)
	return tp, n / tp
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// cutter makes one rank's part of a model as Megatron-LM and vLLM do: heads,
// inner sizes, mixers' channels and the vocabulary divided by t, norms,
// routers and narrow latents whole.
type cutter struct {
	t       int64
	ep, etp int64   // expert-parallel ranks, and those that an expert is cut over
	load    float64 // of this rank's experts
	done    map[*parameter]bool
	err     error // the first
}

// tensorParallel makes this rank's part of the model.
func (p *plan) tensorParallel() error {
	if p.TP == 1 && p.EP == 1 {
		return nil
	}
	mod := p.model
	c := &cutter{t: p.TP, ep: p.EP, etp: p.expertTP, load: p.ExpertLoad, done: map[*parameter]bool{}}
	blocks := mod.blocks
	if mod.encoder != nil {
		blocks = append(append([]*block{}, blocks...), mod.encoder.blocks...)
	}
	if mod.vision != nil && mod.vision.divides(p.TP) {
		blocks = append(append([]*block{}, blocks...), mod.vision.blocks...)
	}
	for _, b := range blocks {
		if err := c.block(b); err != nil {
			return err
		}
	}
	if p.TP == 1 {
		return nil
	}
	c.pad(mod.embed)
	if h := mod.head; h != nil && mod.task != taskContrast {
		h.Out = (h.Out + p.TP - 1) / p.TP
		c.pad(h.Weight)
		c.pad(h.Bias)
	}
	c.pad(mod.rest())
	p.undivided(c)
	return nil
}

// undivided notes what is left whole though it is large, for want of a scheme.
func (p *plan) undivided(c *cutter) {
	var n int64
	name := ""
	for _, q := range p.model.params {
		if len(q.Shape) < 2 || c.done[q] || q.Role == RoleNorm || q.Role == RoleRouter || q.Role == RolePosition {
			continue
		}
		if n == 0 {
			name = q.Name
		}
		n += q.Elements()
	}
	if n > p.whole.Total/100 {
		p.notes = append(p.notes, fmt.Sprintf("--tp %d leaves %d parameters whole on every rank (the first is %s): no known "+
			"scheme divides them", p.TP, n, name))
	}
}

// divides says whether a vision encoder's heads and inner sizes can be.
func (m *model) divides(t int64) bool {
	for _, b := range m.blocks {
		if f, ok := b.ff.(*mlp); !ok || f.up.Out%t != 0 || b.attn == nil || b.attn.heads%t != 0 {
			return false
		}
	}
	return true
}

// fail keeps the first reason why a model cannot be divided.
func (c *cutter) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

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

// resize gives a layer another number of outputs, where they are not simply
// divided.
func (c *cutter) resize(l *linear, out int64) {
	l.Out = out
	l.Weight.Shape = []int64{out, l.In}
	c.done[l.Weight] = true
	if l.Bias != nil {
		l.Bias.Shape = []int64{out}
	}
}

// column divides the outputs of layers, row the inputs of one.
func (c *cutter) column(ls ...*linear) {
	for _, l := range ls {
		if l != nil && c.t > 1 {
			c.side(l, &l.Out, 0, "outputs")
			c.cut(l.Bias, 0, "outputs")
		}
	}
}

func (c *cutter) row(l *linear) {
	if l != nil && c.t > 1 {
		c.side(l, &l.In, 1, "inputs")
	}
}

// side divides n outputs or inputs, which are a dimension of the weight.
func (c *cutter) side(l *linear, n *int64, dim int, what string) {
	if *n%c.t != 0 {
		c.fail("--tp %d does not divide %s's %d %s", c.t, l.Weight.Name, *n, what)
	}
	if l.turned() {
		dim = 1 - dim
	}
	*n /= c.t
	c.cut(l.Weight, dim, what)
}

// turned says whether a weight is stored transposed (gpt2).
func (l *linear) turned() bool {
	s := l.Weight.Shape
	return len(s) == 2 && s[0] == l.In && s[1] == l.Out && l.In != l.Out
}

func (c *cutter) block(b *block) error {
	for _, a := range []*attention{b.attn, b.cross} {
		switch {
		case a == nil:
		case a.heads%c.t != 0:
			c.fail("--tp %d does not divide the %d attention heads", c.t, a.heads)
		case a.kv > 1 && a.kv%c.t != 0 && c.t%a.kv != 0:
			c.fail("--tp %d and %d key-value heads do not fit each other", c.t, a.kv)
		default:
			c.attention(a)
		}
	}
	if x, ok := b.mixer.(*mamba); ok && c.t > 1 {
		c.mixer(x)
	}
	c.feedForward(b.ff)
	return c.err
}

func (c *cutter) feedForward(f feedForward) {
	switch f := f.(type) {
	case *mlp:
		c.column(f.gate, f.up)
		c.row(f.down)
	case *experts:
		c.experts(f)
		c.feedForward(f.shared)
	}
}

func (c *cutter) experts(f *experts) {
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

func (c *cutter) attention(a *attention) {
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
		a.heads, a.kv = a.heads/t, a.kv/t
		return
	}
	switch few := a.kv < t; { // then each rank keeps the one head that its queries use
	case few && a.fused:
		c.resize(a.q, a.heads*a.d/t+2*a.d)
	case few:
		c.column(a.q)
		c.resize(a.k, a.k.Out/a.kv)
		c.resize(a.v, a.v.Out/a.kv)
	case a.fused:
		c.column(a.q)
	default:
		c.column(a.q, a.k, a.v)
	}
	a.heads, a.kv = a.heads/t, max(a.kv/t, 1)
}

// mixer divides the channels of a state-space layer, and with them its heads
// and groups; a single group is copied to every rank.
func (c *cutter) mixer(x *mamba) {
	t := c.t
	for _, part := range []struct {
		divided bool
		n       int64
		what    string
	}{{true, x.inner, "channels"}, {true, x.heads, "heads"}, {x.second && x.groups > 1, x.groups, "groups"},
		{x.delta, x.keys / x.state_, "key heads"}} {
		if part.divided && part.n%t != 0 {
			c.fail("--tp %d does not divide the mixers' %d %s", t, part.n, part.what)
			return
		}
	}
	x.inner, x.heads, x.keys = x.inner/t, x.heads/t, x.keys/t
	if x.second {
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
	if x.delta {
		c.column(x.x)
	} else {
		c.row(x.x)
	}
	for _, q := range []*parameter{x.conv, x.convBias, x.a, x.skip, x.dtBias} {
		c.cut(q, 0, "channels")
	}
	c.row(x.out)
}

// symmetric is the workspace of asynchronous tensor parallelism, one for the group, as large as
// the largest product asks for: a product whose results are summed over the ranks sends two of a
// rank's pieces by turns, one whose input is gathered has its own piece there
// (torch/distributed/_symmetric_memory, _pipelined_produce_and_all2all). It is mapped in pages of 2 MiB.
func (p *plan) symmetric() int64 {
	if !p.AsyncTP || p.TP == 1 || !p.SequenceParallel || !p.Compile || p.Inference {
		return 0
	}
	return autograd.Parts(2*p.Batch*autograd.Parts(p.Sequence, p.TP)*p.model.hidden*p.width, 2*mib) * 2 * mib
}
