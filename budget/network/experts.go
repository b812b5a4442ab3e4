package network

import (
	"strings"

	"github.com/vramscope/vramscope/internal/words"
)

// Experts is a layer of routed experts. The grouped product's memory does not depend on which expert a token takes.
type Experts struct {
	router      *Linear
	gateUp      *parameter // [E, 2 inner, h], or [E, h, 2 inner]
	down        *parameter
	upLoRA      *adapter // on gateUp
	downLoRA    *adapter
	routerLoRA  *adapter
	upBias      *parameter
	downBias    *parameter
	count, topK int64
	h, inner    int64
	act         activation
	shared      FeedForward
	sharedGate  *Linear
	oss         bool    // clamped halves and x * sigmoid(a x)
	local       int64   // expert-parallel ranks, 0 or 1 without
	load        float64 // tokens that come here, as a multiple of an even share, 0 or 1 without
	sharing     int64   // tensor-parallel ranks that have whole experts and share the tokens, 0 or 1 without
	wideRouter  bool    // routes in float32 (deepseek)
}

func (x *Experts) Linears() []*Linear {
	if x.shared != nil {
		return x.shared.Linears()
	}
	return nil
}

// routed are experts without weights yet.
func routed(b *builder, count, topK, h, inner int64) *Experts {
	if topK <= 0 || topK > count {
		b.fail("%s: %d of %d experts per token", b.c.Type, topK, count)
	}
	return &Experts{count: count, topK: topK, h: h, inner: inner, act: actSilu}
}

func (b *builder) experts(name string, router string, count, topK, h, inner int64) *Experts {
	x := routed(b, count, topK, h, inner)
	x.router = b.linear(router, RoleRouter, h, count, false)
	x.gateUp = b.param(name+".gate_up_proj", RoleExpert, count, 2*inner, h)
	x.down = b.param(name+".down_proj", RoleExpert, count, h, inner)
	return x
}

// expertsNamed is the layer of families that call its parts so.
func expertsNamed(name, router, count string) func(*builder, int64) FeedForward {
	return func(b *builder, _ int64) FeedForward {
		c := b.c
		return b.experts(name, router, c.Int(count), c.Int("num_experts_per_tok"), c.Int("hidden_size"),
			c.Int("intermediate_size"))
	}
}

var (
	mixtralExperts = expertsNamed("mlp.experts", "mlp.gate", "num_local_experts")
	phimoeExperts  = expertsNamed("mlp.experts", "mlp.router", "num_local_experts")
	olmoeExperts   = expertsNamed("mlp.experts", "mlp.gate", "num_experts")
	graniteExperts = expertsNamed("block_sparse_moe.experts", "block_sparse_moe.router", "num_local_experts")
)

// graniteShared: besides, an expert that every token takes.
func graniteShared(b *builder, i int64) FeedForward {
	x := graniteExperts(b, i).(*Experts)
	if b.c.Int("shared_intermediate_size") > 0 {
		x.shared = graniteMLP(b, RoleShared)
	}
	return x
}

// graniteMLP is what every token takes.
func graniteMLP(b *builder, role Role) *mlp {
	f := &mlp{act: b.activation("hidden_act"), fused: true}
	b.make(parts{to: []any{f}, role: role}, "gateUp=shared_mlp.input_linear:hidden_size>2*shared_intermediate_size "+
		"down=shared_mlp.output_linear:shared_intermediate_size>hidden_size")
	return f
}

// glmExperts: the first layers are dense.
func glmExperts(b *builder, i int64) FeedForward {
	if dense(b.c, i) {
		return nil
	}
	return b.deepSeekExperts(b.c.Int("num_experts_per_tok"), true)
}

// ernieExperts: the layers of a range, every few; nothing trains what corrects their scores.
func ernieExperts(b *builder, i int64) FeedForward {
	c := b.c
	last := c.IntOr("moe_layer_end_index", -1) // below zero: the last one there is
	if (i+1)%max(c.Int("moe_layer_interval"), 1) != 0 || i < c.Int("moe_layer_start_index") || last >= 0 && i > last {
		return nil
	}
	x := b.experts("mlp.experts", "mlp.gate", c.Int("num_experts"), c.Int("num_experts_per_tok"), c.Int("hidden_size"),
		c.Int("moe_intermediate_size"))
	x.wideRouter = true
	b.param("mlp.gate.moe_statics.e_score_correction_bias", RoleRouter, 1, x.count).Trainable = false
	if n := c.Int("moe_num_shared_experts"); n > 0 {
		b.sharedExpert(x, "mlp.shared_experts.", timesWithin(n, c.Int("moe_intermediate_size")), c.Bool("use_bias"))
	}
	return x
}

func minimaxExperts(b *builder, i int64) FeedForward {
	x := mixtralExperts(b, i).(*Experts)
	b.buffer("mlp.e_score_correction_bias", RoleRouter, x.count)
	return x
}

// qwenExperts: some layers may stay dense.
func qwenExperts(b *builder, i int64) FeedForward {
	c := b.c
	step := max(c.Int("decoder_sparse_step"), 1)
	if c.Type == "qwen3_5_moe_text" {
		step = 1
	}
	dense := c.Int("num_experts") == 0 || (i+1)%step != 0
	if dense || listed(c, "mlp_only_layers", i) && c.Type != "qwen3_5_moe_text" {
		return nil
	}
	x := b.experts("mlp.experts", "mlp.gate", c.Int("num_experts"), c.Int("num_experts_per_tok"), c.Int("hidden_size"),
		c.Int("moe_intermediate_size"))
	if ms := c.Int("shared_expert_intermediate_size"); ms > 0 && c.Type != "qwen3_moe" {
		b.sharedExpert(x, "mlp.shared_expert.", ms, false)
		x.sharedGate = b.linear("mlp.shared_expert_gate", RoleShared, x.h, 1, false)
	}
	return x
}

// cohereExperts: besides, one of the shared experts' width together, whose result is averaged with theirs.
func cohereExperts(b *builder, i int64) FeedForward {
	c := b.c
	if dense(b.c, i) {
		return nil
	}
	x := olmoeExperts(b, i).(*Experts)
	if n := c.Int("num_shared_experts"); n > 0 {
		b.sharedExpert(x, "mlp.shared_experts.", timesWithin(n, c.Int("intermediate_size")), false)
	}
	return x
}

// hunyuanExperts: the count and how many of them a token takes may stand for each layer.
func hunyuanExperts(b *builder, i int64) FeedForward {
	c := b.c
	n := c.Int("intermediate_size")
	x := b.experts("mlp.experts", "mlp.gate.wg", ofLayer(c, "num_experts", i), ofLayer(c, "moe_topk", i), c.Int("hidden_size"), n)
	x.wideRouter = true
	b.sharedExpert(x, "mlp.shared_mlp.", n, false)
	return x
}

func (b *builder) sharedExpert(x *Experts, name string, ms int64, bias bool) {
	f, plus := &mlp{act: actSilu}, ""
	if x.shared = f; bias {
		plus = "+"
	}
	b.under(name, func() {
		b.make(parts{to: []any{f}, role: RoleShared, sizes: sizes{"h": x.h, "inner": ms}}, strings.ReplaceAll(
			"gate=gate_proj+ up=up_proj+ down=down_proj+", "+", plus))
	})
}

func ossExperts(b *builder, _ int64) FeedForward {
	c := b.c
	h, e := c.Int("hidden_size"), c.Int("num_local_experts")
	x := routed(b, e, c.Int("num_experts_per_tok"), h, c.Int("intermediate_size"))
	x.oss = true
	x.router = b.linear("mlp.router", RoleRouter, h, e, true)
	b.make(parts{to: []any{x}, role: RoleExpert}, "gateUp=mlp.experts.gate_up_proj:count,h,2*inner "+
		"upBias=mlp.experts.gate_up_proj_bias:count,2*inner down=mlp.experts.down_proj:count,inner,h "+
		"downBias=mlp.experts.down_proj_bias:count,h")
	return x
}

func (x *Experts) forward(m *Machine, in *value) *value { return x.by(m, in, in) }

// by is the layer, whose router may see something else than its experts.
func (x *Experts) by(m *Machine, in, seen *value) *value {
	t := in.N / x.h
	s := (t*x.topK + max(x.sharing, 1) - 1) / max(x.sharing, 1)
	var shared *value
	if x.shared != nil && x.sharedGate != nil {
		shared = x.shared.forward(m, in)
	}
	weights := x.route(m, seen, t)
	here := s        // tokens of this rank's experts
	if x.local > 1 { // tokens on their way to the ranks that have their experts, and back
		here = int64(float64(s) * max(x.load, 1))
		m.Pulse(2*(s+here)*x.h*m.Width, words.Communication)
	}
	ids := []*storage{m.Alloc(8*here, words.Temporary), m.Alloc(8*s, words.Temporary)} // order and its inverse
	g := m.Gather(in, here*x.h, ids[0])
	up := m.adapted(x.gateUp, x.upLoRA)
	y := grouped(m, g, up, here, 2*x.inner)
	m.Drop(g)
	if x.upBias != nil {
		y = m.Replace(y, pickBias(m, y, x.upBias, ids[0]))
	}
	p := m.Split(y, y.N/2, y.N/2)
	m.Drop(y)
	var z *value
	if x.oss {
		g, u := m.of(p[0], byInput), m.of(p[1], byInput) // (up + 1) * gate * sigmoid(a * gate), both halves clamped
		z = m.into(u, m.Shift, multiplies{m.into(g, multiplies{m.of(g, m.Scale, byOutput)})})
	} else {
		z = m.of(p[0], x.act, times{p[1]})
	}
	m.Drop(p...)
	down := m.adapted(x.down, x.downLoRA)
	defer m.Drop(up, down) // cached until the layer is through
	o := grouped(m, z, down, here, x.h)
	m.Drop(z)
	if x.downBias != nil {
		o = m.Replace(o, pickBias(m, o, x.downBias, ids[0]))
	}
	if here != s { // each token back to where it came from
		o = m.Replace(o, m.Gather(o, s*x.h, ids[1]))
	}
	w := m.Mul(o, weights)
	back := m.Replace(w, m.Gather(w, s*x.h, ids[1]))
	out := m.Gather(back, t*x.h)
	m.Drop(back, o, weights)
	m.ReleaseAll(ids)
	out = m.into(out, in.Width)
	switch {
	case x.sharedGate != nil:
		g := m.apply(in, x.sharedGate)
		ws := m.into(shared, multiplies{m.of(g, byOutput)})
		m.Drop(g)
		out = m.into(out, adds{ws})
	case x.shared != nil:
		out = m.into(out, adds{x.shared.forward(m, in)})
	}
	return out
}

// scores are the router's, in float32 where the family computes them so.
func (x *Experts) scores(m *Machine, in *value) *value {
	wide := x.wideRouter && !m.Mixed && in.Width != 4
	if !wide && x.routerLoRA == nil {
		return m.apply(in, x.router)
	}
	f, w := m.Again(in), m.adapted(x.router.Weight, x.routerLoRA)
	if wide {
		f, w = m.Replace(f, m.Cast(f, 4)), m.Replace(w, m.Cast(w, 4))
	}
	l := m.linear(f, &Linear{layer: layer{In: x.router.In, Out: x.router.Out, Weight: &parameter{Val: w}}})
	m.Drop(f, w)
	return l
}

// route gives each token its experts' weights; the softmax over all is kept.
func (x *Experts) route(m *Machine, in *value, t int64) *value {
	l := x.scores(m, in)
	p := m.Replace(l, m.Softmax(l, true))
	w := m.Tensor(t*x.topK, p.Width)
	idx := m.Alloc(8*t*x.topK, words.Temporary)
	m.UnaryNode(w, p, words.Temporary, idx)
	m.Release(idx)
	m.Drop(p)
	return m.into(w, when(!m.Mixed, in.Width))
}

// grouped is grouped_mm, which isn't an autocast operation: nothing is cast.
func grouped(m *Machine, x, w *value, rows, out int64) *value {
	e := max(x.Width, w.Width)
	in := m.Cast(x, e)
	y := m.Tensor(rows*out, e)
	xb, wb := in.Bytes(), w.Bytes()
	needW, c := w.NeedsGrad(), words.Gradients
	if w.Leaf == nil {
		c = words.Temporary
	}
	saved := []*storage{w.Mem}
	if needW {
		saved = append(saved, in.Mem)
	}
	m.Record([]*value{y}, []*value{in, w}, saved, func(g []*storage) []*storage {
		return []*storage{m.Alloc(xb, words.Temporary), m.AllocIf(needW, wb, c)}
	})
	m.Drop(in)
	return y
}

// pickBias adds each row its expert's bias in place.
func pickBias(m *Machine, x *value, p *parameter, index *storage) *value {
	b := m.Tensor(x.N, p.Val.Width)
	bytes := p.Val.Bytes()
	m.Record([]*value{b}, []*value{p.Val}, []*storage{index}, func(g []*storage) []*storage {
		return []*storage{m.Alloc(bytes, words.Gradients)}
	})
	return m.Replace(b, m.AddInPlace(x, b))
}
