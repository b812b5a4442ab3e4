package network

import (
	"slices"

	"github.com/vramscope/vramscope/budget/modelfile"
)

// What single families do differently from their row in the decoder table.

// window functions: which layers look only at the last tokens.

func slidingAll(c *modelfile.Config, _ int64) int64 { return c.Int("sliding_window") }

// sliding is the window of layers that layer_types names, or of which other holds where it says nothing of them.
func sliding(other func(c *modelfile.Config, i int64) bool) func(*modelfile.Config, int64) int64 {
	return func(c *modelfile.Config, i int64) int64 {
		if layerIs(c, i, other(c, i), "sliding_attention") {
			return c.Int("sliding_window")
		}
		return 0
	}
}

// switched is a window that is there where a field says so.
func switched(window func(*modelfile.Config, int64) int64) func(*modelfile.Config, int64) int64 {
	return func(c *modelfile.Config, i int64) int64 {
		if c.Bool("use_sliding_window") {
			return window(c, i)
		}
		return 0
	}
}

// Rules of families for their layers.
var (
	slidingQwen  = switched(sliding(func(c *modelfile.Config, i int64) bool { return i >= c.Int("max_window_layers") }))
	slidingTyped = sliding(func(*modelfile.Config, int64) bool { return true })
	slidingSmol  = switched(slidingListed)

	slidingListed     = sliding(func(*modelfile.Config, int64) bool { return false })
	slidingAfterFirst = sliding(func(_ *modelfile.Config, i int64) bool { return i%4 != 0 })
)

// slidingGemma: every n-th layer sees everything.
func slidingGemma(n int64) func(*modelfile.Config, int64) int64 {
	return sliding(func(c *modelfile.Config, i int64) bool {
		every := c.IntOr("sliding_window_pattern", n)
		return every <= 0 || (i+1)%every != 0
	})
}

// turnedSmol: smollm3 leaves every few layers without rotation.
func turnedSmol(b *builder, _ *decoder, l *layerDraft) {
	every := b.c.IntOr("no_rope_layer_interval", 4)
	plain := every > 0 && (l.i+1)%every == 0
	if list := b.c.List("no_rope_layers"); l.i < int64(len(list)) { // 1: rotated, whatever the name says
		plain = modelfile.AsInt(list[l.i]) == 0
	}
	if plain {
		l.attn.rope = rotary{}
	}
}

// turnedInWindows: where some layers have windows, only these rotate.
func turnedInWindows(b *builder, _ *decoder, l *layerDraft) {
	if l.attn.Window == 0 && b.c.Int("sliding_window") > 0 {
		l.attn.rope = rotary{}
	}
}

// xieluLayer: an activation of two numbers that are trained.
func xieluLayer(b *builder, _ *decoder, l *layerDraft) {
	f := l.block.FF.(*mlp)
	if b.c.Str("hidden_act") != "xielu" {
		return
	}
	f.act = actXielu
	b.param("mlp.act_fn.alpha_p", RoleMLP, 1)
	b.param("mlp.act_fn.alpha_n", RoleMLP, 1)
}

// glmNorms: only the larger models normalise q and k.
func glmNorms(b *builder, d *decoder) {
	if b.c.Bool("use_qk_norm") {
		d.QNorm, d.KNorm = "q_norm", "k_norm"
	}
}

// bigCodeKV: all heads may share one key and value.
func bigCodeKV(c *modelfile.Config) int64 {
	if c.Bool("multi_query") {
		return 1
	}
	return everyHead(c)
}

// stableHeads: one norm for each head, and a parallel block shares its norm.
func stableHeads(b *builder, d *decoder, l *layerDraft) {
	if b.c.Bool("qk_layernorm") {
		l.attn.qNorm = b.perHead(d.Attn+"q_layernorm.norms", l.attn.Heads, l.attn.Width)
		l.attn.kNorm = b.perHead(d.Attn+"k_layernorm.norms", l.attn.KV, l.attn.Width)
	}
	if l.block.parallel { // no second norm in a parallel block
		b.remove(l.block.mlpIn.weight, l.block.mlpIn.bias)
		l.block.mlpIn = nil
	}
}

// heliumHeads: what its attention ends in takes heads that are as wide together as the stream.
func heliumHeads(b *builder, _ *decoder) {
	h, a := b.c.Int("hidden_size"), b.c.Int("num_attention_heads")
	if d := b.headDim(h, a); a*d != h {
		b.fail("helium: %d heads of %d don't make the hidden size of %d", a, d, h)
	}
}

// perHead is a list of norms, one a head; they work like one norm of all.
func (b *builder) perHead(name string, heads, d int64) *norm {
	n := &norm{kind: layerNormKind, size: d}
	b.layers(name+".", heads, func(i int64) { n.weight = b.param("weight", RoleNorm, d) })
	return n
}

// cohereHeads: command-r-plus normalises q and k with a weight for every head.
func cohereHeads(b *builder, d *decoder, l *layerDraft) {
	if b.c.Bool("use_qk_norm") {
		one := func(name string, heads int64) *norm {
			return &norm{kind: cohereNormKind, size: l.attn.Width, weight: b.param(d.Attn+name, RoleNorm, heads, l.attn.Width)}
		}
		l.attn.qNorm, l.attn.kNorm = one("q_norm.weight", l.attn.Heads), one("k_norm.weight", l.attn.KV)
	}
}

func gpt2Attention(b *builder, _ *decoder, l *layerDraft) {
	l.attn.plainSoftmax, l.attn.downcast = true, true
	l.block.FF.(*mlp).drop = l.block.drop
	l.attn.outDrop = l.block.drop
	l.block.drop = 0
}

func neoAttention(b *builder, d *decoder, l *layerDraft) {
	gpt2Attention(b, d, l)
	l.attn.wideScores, l.attn.eagerOnly = true, b.c.Type == "gpt_neo"
	positions := b.c.Int("max_position_embeddings")
	if b.c.Type == "gpt_neo" { // a causal mask of bytes
		b.m.Buffers += float64(positions) * float64(positions)
	} else { // sines and cosines, in the weights' type
		b.m.WideBuffers += float64(positions) * float64(l.attn.rope.dim)
	}
}

// optSetup: two more positions than tokens, and narrower word vectors in some sizes.
func optSetup(b *builder, d *decoder) {
	m, c := b.m, b.c
	h := c.Int("hidden_size")
	m.Params = m.Params[:0]
	width := c.IntOr("word_embed_proj_dim", h)
	m.WordWidth = width
	b.embedding(d.Embed, m.Vocab, width)
	m.Position = b.param("embed_positions.weight", RolePosition, c.Int("max_position_embeddings")+2, h)
	if width != h {
		m.projectOut = b.linear("project_out", RoleEmbedding, h, width, false)
		m.projectIn = b.linear("project_in", RoleEmbedding, width, h, false)
	}
	if !c.Bool("do_layer_norm_before") || c.Bool("_remove_final_layer_norm") {
		d.Final = ""
	}
	if !c.Bool("layer_norm_elementwise_affine") {
		d.NoNorms = true
	}
}

func optLayer(b *builder, _ *decoder, l *layerDraft) {
	l.attn.byScale = true
	if !b.c.Bool("do_layer_norm_before") {
		l.block.postNorm = true
		l.block.attnOut, l.block.mlpOut = l.block.attnIn, l.block.mlpIn
	}
}

// mptLayer is of Transformers' own MPT, whose scores are written out; models that say so have no bias per head.
func mptLayer(b *builder, _ *decoder, l *layerDraft) {
	c := b.c.Nested("attn_config", "")
	f, drop := l.block.FF.(*mlp), c.Float("attn_pdrop")
	f.act, f.drop = actGelu, drop
	l.attn.dropout, l.attn.outDrop = drop, drop
	l.attn.alibi, l.attn.eagerOnly, l.attn.keepNames, l.attn.clips = true, true, true, c.Float("clip_qkv") != 0
}

// everyHead: families without shared key and value heads.
func everyHead(c *modelfile.Config) int64 { return c.Int("num_attention_heads") }

func falconKV(c *modelfile.Config) int64 {
	a := c.Int("num_attention_heads")
	switch {
	case c.Bool("new_decoder_architecture"):
		return c.IntOr("num_kv_heads", a)
	case c.Bool("multi_query"):
		return 1
	}
	return a
}

// falconLayer: one, two or no extra norms, depending on three flags.
func falconLayer(b *builder, d *decoder, l *layerDraft) {
	c := b.c
	l.attn.alibi = c.Bool("alibi")
	l.attn.masked, l.attn.narrowSoftmax, l.attn.keepNames = true, true, true
	l.attn.pick = c.Bool("multi_query") && !c.Bool("new_decoder_architecture")
	l.attn.q.separate, l.attn.o.separate = true, true
	if l.attn.alibi {
		l.attn.rope.kind = ropeNone
		b.m.RotaryWidth = 0
	}
	if f, ok := l.block.FF.(*mlp); ok {
		f.up.separate, f.down.separate = true, true
	}
	two := c.IntOr("num_ln_in_parallel_attn", 1)
	if c.Bool("new_decoder_architecture") && !c.Has("num_ln_in_parallel_attn") {
		two = 2
	}
	if c.Bool("new_decoder_architecture") {
		l.attn.broadcast = true
	}
	if !l.block.parallel && !c.Bool("new_decoder_architecture") {
		return
	}
	l.block.parallel = true
	n := l.block.mlpIn
	if two == 2 && !c.Bool("parallel_attn") {
		return
	}
	if two == 2 {
		l.block.attnIn.weight.Name = b.prefix + "ln_attn.weight"
		l.block.attnIn.bias.Name = b.prefix + "ln_attn.bias"
		n.weight.Name, n.bias.Name = b.prefix+"ln_mlp.weight", b.prefix+"ln_mlp.bias"
		return
	}
	b.remove(n.weight, n.bias)
	l.block.mlpIn = nil
}

// remove takes parameters back that a layer turns out not to have.
func (b *builder) remove(gone ...*parameter) {
	b.m.Params = slices.DeleteFunc(slices.Clone(b.m.Params), func(p *parameter) bool { return slices.Contains(gone, p) })
}
