package network

import (
	"cmp"
	"strconv"

	"github.com/vramscope/vramscope/budget/modelfile"
	"github.com/vramscope/vramscope/internal/words"
)

// Gemma 3n and Gemma 4: each layer is given embeddings of its own beside the stream, later layers take the keys and values of
// earlier ones, and Gemma 3n's stream is several, of which a layer works on one.

// ownInputs are what makes each layer's own embeddings, and more than one stream.
type ownInputs struct {
	table         *parameter
	project       *Linear
	norm          *norm
	width, layers int64
	streams, ends []*Linear
}

// beside is what layers see of one pass besides the stream.
type beside struct {
	perLayer *value
	origin   *value             // the embeddings themselves
	keys     map[bool][2]*value // keys and values, of layers without a window and with one
}

// storages are those that a checkpointed layer is given.
func (s *beside) storages() (all []*storage) {
	if s == nil {
		return nil
	}
	for _, v := range []*value{s.perLayer, s.origin} {
		if v != nil {
			all = append(all, v.Mem)
		}
	}
	return all
}

// leave lets them go, where layers don't run again.
func (s *pass) leave() {
	if s.c.beside == nil {
		return
	}
	all := s.c.beside.storages()
	for _, kv := range s.c.beside.keys {
		all = append(all, kv[0].Mem, kv[1].Mem)
	}
	for _, st := range all {
		if s.r.M.Modes.Recomputes {
			s.m.OnTape(st)
		} else {
			s.m.Release(st)
		}
	}
}

// begin makes what layers see besides, and the other streams of the first.
func (s *pass) begin(x *value, ids *storage) *value {
	m, o, t := s.m, s.mod.own, s.c.self.batch*s.c.self.queries
	if s.mod.keepsOrigin {
		s.c.beside = &beside{origin: m.CopyOf(x)}
	}
	if o == nil {
		return x
	}
	s.c.beside = &beside{keys: map[bool][2]*value{}}
	s.c.self.beside = s.c.beside
	if o.table != nil {
		e := m.into(m.Embedding(o.table, t, o.width*o.layers, ids), m.Scale)
		s.c.beside.perLayer = m.of(x, o.project, m.Scale, o.norm, adds{e}, m.Scale)
	}
	if len(o.streams) == 0 {
		return x
	}
	all := []*value{x}
	magnitude := m.MeanSquare(x, t)
	for _, l := range o.streams {
		all = append(all, asLong(m, x, l, magnitude, t))
	}
	s.names = append(s.names, all[1:]...)
	m.Drop(magnitude)
	return m.Replace(x, m.Cat(all...))
}

// asLong is a projection that is made as long as what its magnitude is of.
func asLong(m *Machine, x *value, l *Linear, magnitude *value, rows int64) *value {
	p := m.of(x, l, x.Width)
	own := m.MeanSquare(p, rows)
	return m.into(p, times{magnitude}, multiplies{own}) // a quotient, which keeps both as well
}

// end makes one stream of several.
func (s *pass) end(x *value) *value {
	m, o, t := s.m, s.mod.own, s.c.self.batch*s.c.self.queries
	if o == nil || len(o.ends) == 0 {
		return x
	}
	n := t * s.mod.Hidden
	first := pick(m, x, n)
	magnitude := m.MeanSquare(first, t)
	all := []*value{first}
	for _, l := range o.ends {
		one := pick(m, x, n)
		all = append(all, asLong(m, one, l, magnitude, t))
		m.Drop(one)
	}
	m.Drop(x, magnitude)
	sum := m.Cat(all...)
	m.Drop(all...)
	return m.Replace(sum, m.Gather(sum, n)) // their mean
}

// gemmaTables are the weights outside of layers.
func gemmaTables(b *builder, _ *decoder) {
	c, m := b.c, b.m
	o := &ownInputs{width: c.Int("hidden_size_per_layer_input"), layers: c.Int("num_hidden_layers")}
	m.own = o
	if o.layers > MaxLayers {
		b.fail("%s: %d layers", c.Type, o.layers)
	}
	if o.width > 0 {
		b.make(parts{to: []any{o}, norm: rmsWideKind, role: RoleEmbedding}, "table=embed_tokens_per_layer.weight:"+
			"vocab_size_per_layer_input,layers*width project=per_layer_model_projection:hidden_size>layers*width "+
			"norm=per_layer_projection_norm:width")
	}
	if c.Type != "gemma3n_text" {
		return
	}
	if n := c.Int("altup_num_inputs"); n < 1 || n > 64 {
		b.fail("%s: %d streams", c.Type, n)
	}
	for range c.Int("altup_num_inputs") - 1 {
		i := strconv.Itoa(len(o.streams))
		o.streams = append(o.streams, b.linear("altup_projections."+i, RoleEmbedding, m.Hidden, m.Hidden, false))
		o.ends = append(o.ends, b.linear("altup_unembed_projections."+i, RoleEmbedding, m.Hidden, m.Hidden, false))
	}
}

// gemma4Full says whether a layer sees everything; the last one always does.
func gemma4Full(c *modelfile.Config, i int64) bool {
	full := (i+1)%6 == 0
	if l := c.List("layer_types"); i < int64(len(l)) {
		full = l[i] == "full_attention"
	}
	return full || i == c.Int("num_hidden_layers")-1
}

func gemma4Window(c *modelfile.Config, i int64) int64 {
	if gemma4Full(c, i) {
		return 0
	}
	return c.Int("sliding_window")
}

// reused says whether a layer takes another's keys and values, and whether it is the last that makes them for others like it.
func reused(c *modelfile.Config, i int64, window func(*modelfile.Config, int64) int64) (takes, gives bool) {
	first := c.Int("num_hidden_layers") - c.Int("num_kv_shared_layers")
	if i >= first {
		return true, false
	}
	for j := i + 1; j < first; j++ {
		if (window(c, j) > 0) == (window(c, i) > 0) {
			return false, false
		}
	}
	return false, first < c.Int("num_hidden_layers")
}

// gemmaHeads are a layer's: which keys and values it takes, and how wide it is.
func gemmaHeads(b *builder, d *decoder, i int64, at *Attention, inner int64) int64 {
	c := b.c
	at.takes, at.gives = reused(c, i, d.Window)
	at.vNorm = &norm{kind: rmsWideKind, size: at.Width}
	if c.Type == "gemma3n_text" {
		return cmp.Or(ofLayer(c, "intermediate_size", i), inner)
	}
	if gemma4Full(c, i) {
		at.Width = c.IntOr("global_head_dim", 512)
		if c.Bool("attention_k_eq_v") {
			at.KV, at.keysAsValues = c.IntOr("num_global_key_value_heads", at.KV), true
			b.heads(b.m.Hidden, at.Heads, at.KV)
		}
		at.dv, at.rope.dim, at.rope.of, at.vNorm.size = at.Width, at.Width, at.Width, at.Width
	}
	if at.takes && c.Bool("use_double_wide_mlp") {
		return 2 * inner
	}
	return inner
}

// ownInput adds what a layer makes of its own embeddings.
type ownInput struct {
	gate, up *Linear
	norm     *norm
	act      activation
}

func newOwnInput(b *builder) *ownInput {
	w := b.c.Int("hidden_size_per_layer_input")
	if w <= 0 {
		return nil
	}
	o := &ownInput{act: b.activation("hidden_activation")}
	b.make(parts{to: []any{o}, norm: rmsWideKind, sizes: sizes{"h": b.m.Hidden, "w": w}}, "gate=per_layer_input_gate:h>w "+
		"up=per_layer_projection:w>h norm=post_per_layer_input_norm")
	return o
}

func (o *ownInput) forward(m *Machine, x *value, s *beside) *value {
	y := m.of(x, o.gate, o.act)
	return m.into(y, multiplies{pick(m, s.perLayer, y.N)}, o.up, o.norm)
}

// gemma4 is a layer of Gemma 4, which may have experts beside its feed-forward.
type gemma4 struct {
	b                     *Block
	own                   *ownInput
	experts               *Experts
	scale                 *parameter // of what the router sees
	dense, before, behind *norm
}

func gemma4Layer(b *builder, _ *decoder, l *layerDraft) {
	x := &gemma4{b: l.block, own: newOwnInput(b)}
	if o := x.own; o != nil {
		l.block.more = []*Linear{o.gate, o.up}
	}
	c, h := b.c, b.m.Hidden
	if c.Bool("enable_moe_block") {
		x.experts = b.experts("experts", "router.proj", c.Int("num_experts"), c.Int("top_k_experts"), h,
			c.Int("moe_intermediate_size"))
		x.experts.act = b.activation("hidden_activation")
		b.make(parts{to: []any{x}, norm: rmsWideKind, role: RoleRouter, sizes: sizes{"h": h}}, "scale=router.scale:h "+
			"-=router.per_expert_scale:num_experts dense=post_feedforward_layernorm_1 behind=post_feedforward_layernorm_2 "+
			"before=pre_feedforward_layernorm_2")
	}
	l.block.own = x.forward
}

func (x *gemma4) forward(m *Machine, in *value, c context) *value {
	b := x.b
	h := b.part(m, in, b.attnIn, b.attnOut, func(v *value) *value { return b.along(m, v, c.self) })
	y := m.of(h, b.mlpIn, b.FF)
	if x.experts != nil {
		y = m.into(y, x.dense)
		y = m.into(y, adds{x.routed(m, h)})
	}
	h = m.into(h, adds{m.into(y, b.mlpOut)})
	if x.own != nil {
		h = m.into(h, adds{x.own.forward(m, h, c.beside)})
	}
	z := m.Again(h) // times a number, in place
	m.UnaryNode(z, h, words.Temporary)
	return m.Replace(h, z)
}

// routed are the experts' results; the router sees the stream as it was.
func (x *gemma4) routed(m *Machine, h *value) *value {
	seen := m.of(h, &norm{kind: rmsWideKind, size: x.experts.h}, times{x.scale.Val}, m.Scale)
	n := x.before.forward(m, h)
	e := x.experts.by(m, n, seen)
	m.Drop(n, seen)
	return m.into(e, x.behind)
}

// gemma3n is a layer of Gemma 3n: it predicts all streams, works on the first, and corrects the others by that.
type gemma3n struct {
	b                        *Block
	own                      *ownInput
	streams                  int64
	scale                    *parameter
	correct, predict, router *Linear
	routerNorm               *norm
	left, right              *Linear
	laurelNorm               *norm
	scaled                   bool
}

func gemma3nLayer(b *builder, d *decoder, l *layerDraft) {
	c, h, n := b.c, b.m.Hidden, b.c.Int("altup_num_inputs")
	x := &gemma3n{b: l.block, streams: n, scaled: c.Bool("altup_correct_scale")}
	p := parts{to: []any{x}, norm: rmsWideKind, role: RoleRouter, sizes: sizes{"h": h}}
	x.scale = b.param("altup.correct_output_scale", RoleNorm, h)
	b.make(p, "correct=altup.correction_coefs:streams>streams predict=altup.prediction_coefs:streams>streams*streams "+
		"router=altup.modality_router:h>streams routerNorm=altup.router_norm")
	p.role = RoleMLP
	b.make(p, "left=laurel.linear_left:h>laurel_rank right=laurel.linear_right:laurel_rank>h laurelNorm=laurel.post_laurel_norm")
	if x.own = newOwnInput(b); x.own == nil {
		b.fail("%s: hidden_size_per_layer_input is %v, which no model has", c.Type, c.Get("hidden_size_per_layer_input"))
	}
	l.block.more = []*Linear{x.correct, x.predict, x.router, x.left, x.right, x.own.gate, x.own.up}
	sparse := l.i < 10 && c.Int("num_hidden_layers") > 10
	if p := c.List("activation_sparsity_pattern"); l.i < int64(len(p)) {
		sparse = modelfile.New("", map[string]any{"p": p[l.i]}).Float("p") > 0
	}
	l.block.FF.(*mlp).sparse = sparse
	l.block.own = x.forward
}

// modalities are a few numbers for each token.
func (x *gemma3n) modalities(m *Machine, v *value) *value {
	return m.of(v, x.routerNorm, m.Scale, x.router, 4, byOutput, v.Width)
}

func (x *gemma3n) forward(m *Machine, in *value, c context) *value {
	b, n := x.b, in.N/x.streams
	first := pick(m, in, n)
	coefs := m.into(m.Replace(first, x.modalities(m, first)), x.predict)
	product := m.Matmul(in, coefs, in.N)
	sum := m.Replace(product, m.AddInPlace(product, in))
	predicted := m.into(sum, m.CopyOf, in.Width)
	m.Drop(coefs)

	active := pick(m, predicted, n)
	normed := b.attnIn.forward(m, active)
	low := m.of(normed, x.left, x.right, x.laurelNorm)
	laurel := m.Replace(low, m.Add(normed, low))
	y := m.into(b.Attention.forward(m, normed, normed, c.self), b.attnOut)
	gated := m.Replace(y, m.Add(active, y))
	h := m.of(gated, plus{laurel}, m.Scale)
	fed := m.of(h, b.mlpIn, b.FF)
	out := b.mlpOut.forward(m, fed)
	done := m.Add(h, out)
	fixed := x.corrected(m, predicted, done)
	firstOne := m.into(pick(m, fixed, n), m.CopyOf)
	if x.scaled {
		firstOne = m.into(firstOne, times{x.scale.Val})
	}
	added := m.Replace(firstOne, x.own.forward(m, firstOne, c.beside))
	z := m.Again(fixed) // some of it, in place: the gradient is copied
	full, one := fixed.Bytes(), added.Bytes()
	m.Record([]*value{z}, []*value{fixed, added}, nil, func(g []*storage) []*storage {
		return []*storage{m.Alloc(full, words.Temporary), m.Alloc(one, words.Temporary)}
	})
	m.Drop(fixed, added, predicted, active, normed, laurel, gated, h, fed, out, done) // names, until it returns
	return z
}

// corrected are all streams by what became of the first.
func (x *gemma3n) corrected(m *Machine, predicted, done *value) *value {
	ms := x.modalities(m, done)
	was := pick(m, predicted, done.N)
	new := m.Replace(was, m.Add(done, was))
	each := m.Replace(new, m.Gather(new, predicted.N))
	y := m.into(each, multiplies{m.into(ms, x.correct, m.Shift)})
	return m.Replace(y, m.AddInPlace(y, predicted))
}
