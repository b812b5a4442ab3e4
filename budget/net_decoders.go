package budget

import (
	"cmp"

	"github.com/vramscope/vramscope/budget/modelfile"
)

// decoder is one row of the table of decoder-only language models: what the
// family calls its tensors, which norms, biases and projections it has, and
// what its code keeps. Everything that a configuration can change is read
// from its field; the rest is the family's.
type decoder struct {
	model     string // prefix of everything but the head
	bare      string // and where there is no head
	embed     string // token embedding
	positions string // learned positions, empty without
	layers    string
	final     string
	head      string

	norm       normKind
	normBias   bool
	noNorms    bool // olmo: norms without weights
	attn       string
	q, k, v, o string
	qkv        string // one fused projection instead of q, k and v
	mlp        string
	gate, up   string // gate empty: two matrices only
	gateUp     string // gate and up fused
	down       string
	conv1D     bool

	attnIn, attnOut, mlpIn, mlpOut string

	qkvBias, oBias, mlpBias string // "yes", a field, or empty
	headBias                string
	qNorm, kNorm            string
	act                     string // field of the activation
	rope                    ropeKind
	spread                  int
	tune                    func(b *builder, d *decoder, l *layerDraft)
	moe                     func(b *builder, i int64) feedForward
	mixer                   func(b *builder, i, h int64) mixer // nil where a layer has attention
	both                    bool                               // a mixer and attention side by side
	parallel                string                             // "yes" or a field
	setup                   func(b *builder, d *decoder)
	outDrop                 string // dropout fields: on each part, on embeddings, on scores
	embedDrop, attnDrop     string
	scaledEmbed             bool
	window                  func(c *modelfile.Config, i int64) int64
	inner                   func(c *modelfile.Config) int64
	kvHeads                 func(c *modelfile.Config) int64
}

// layerDraft is a layer being built.
type layerDraft struct {
	i     int64
	attn  *attention
	block *block
}

// llamaLike are the names that most families have inherited.
var llamaLike = decoder{
	model: "model.", embed: "embed_tokens", layers: "layers.", final: "norm", head: "lm_head",
	norm: rmsNormKind, attn: "self_attn.", q: "q_proj", k: "k_proj", v: "v_proj", o: "o_proj",
	mlp: "mlp.", gate: "gate_proj", up: "up_proj", down: "down_proj",
	attnIn: "input_layernorm", mlpIn: "post_attention_layernorm",
	act: "hidden_act", rope: ropeFull, attnDrop: "attention_dropout",
}

// as is a row that differs from another in a few points.
func (d decoder) as(change func(*decoder)) decoder { change(&d); return d }

var decoders = map[string]decoder{
	"llama": llamaLike.as(func(d *decoder) { d.qkvBias, d.oBias, d.mlpBias = "attention_bias", "attention_bias", "mlp_bias" }),
	"arcee": llamaLike.as(func(d *decoder) {
		d.gate, d.qkvBias, d.oBias, d.mlpBias = "", "attention_bias", "attention_bias", "mlp_bias"
	}),
	"helium": llamaLike.as(func(d *decoder) {
		d.norm, d.qkvBias, d.mlpBias, d.spread = rmsWideKind, "attention_bias", "mlp_bias", 1
	}),
	"nemotron": llamaLike.as(func(d *decoder) {
		d.norm, d.normBias, d.gate, d.rope = layerNormNarrowKind, true, "", ropePartial
		d.qkvBias, d.oBias, d.mlpBias = "attention_bias", "attention_bias", "mlp_bias"
	}),
	"mistral":    llamaLike.as(func(d *decoder) { d.window = slidingAll }),
	"qwen2":      llamaLike.as(func(d *decoder) { d.qkvBias = "yes"; d.window = slidingQwen }),
	"ministral":  llamaLike.as(func(d *decoder) { d.window = slidingTyped }),
	"ministral3": llamaLike.as(func(d *decoder) { d.window = slidingAll }),
	"hunyuan_v1_dense": llamaLike.as(func(d *decoder) {
		d.qkvBias, d.oBias, d.qNorm, d.kNorm = "attention_bias", "attention_bias", "query_layernorm", "key_layernorm"
	}),
	"qwen3": llamaLike.as(func(d *decoder) {
		d.qkvBias, d.oBias, d.qNorm, d.kNorm, d.window = "attention_bias", "attention_bias", "q_norm", "k_norm", slidingQwen
	}),
	"granite": llamaLike.as(func(d *decoder) {
		d.qkvBias, d.oBias, d.mlpBias = "attention_bias", "attention_bias", "mlp_bias"
		d.scaledEmbed, d.tune = true, scaledParts
	}),
	"gemma": llamaLike.as(func(d *decoder) {
		d.norm, d.qkvBias, d.oBias, d.scaledEmbed = rmsWideKind, "attention_bias", "attention_bias", true
	}),
	"gemma2": llamaLike.as(func(d *decoder) { gemmaNorms(d); d.window, d.tune = slidingGemma(2), softCapped }),
	"gemma3_text": llamaLike.as(func(d *decoder) {
		gemmaNorms(d)
		d.qNorm, d.kNorm, d.window, d.tune = "q_norm", "k_norm", slidingGemma(6), softCapped
	}),
	"olmo": llamaLike.as(func(d *decoder) {
		d.norm, d.noNorms, d.rope = layerNormWideKind, true, ropeWide
		d.qkvBias, d.oBias = "attention_bias", "attention_bias"
	}),
	"olmo2": llamaLike.as(func(d *decoder) {
		d.norm, d.attnIn, d.mlpIn, d.attnOut, d.mlpOut = rmsWideKind, "", "", "post_attention_layernorm",
			"post_feedforward_layernorm"
		d.qkvBias, d.oBias, d.tune, d.rope = "attention_bias", "attention_bias", wholeQKNorm, ropeWide
	}),
	"olmo3": llamaLike.as(func(d *decoder) {
		d.norm, d.attnIn, d.mlpIn, d.attnOut, d.mlpOut = rmsWideKind, "", "", "post_attention_layernorm",
			"post_feedforward_layernorm"
		d.qkvBias, d.oBias, d.tune, d.rope, d.window = "attention_bias", "attention_bias", wholeQKNorm, ropeWide, slidingGemma(4)
	}),
	"exaone4": llamaLike.as(func(d *decoder) {
		d.attnIn, d.mlpIn, d.attnOut, d.mlpOut = "", "", "post_attention_layernorm", "post_feedforward_layernorm"
		d.qNorm, d.kNorm, d.window, d.tune = "q_norm", "k_norm", slidingGemma(4), turnedInWindows
	}),
	"smollm3": llamaLike.as(func(d *decoder) {
		d.qkvBias, d.oBias, d.mlpBias = "attention_bias", "attention_bias", "mlp_bias"
		d.window, d.tune = slidingSmol, turnedSmol
	}),
	"ernie4_5": llamaLike.as(func(d *decoder) {
		d.qkvBias, d.oBias, d.mlpBias, d.rope, d.spread, d.attnDrop = "use_bias", "use_bias", "use_bias", ropeWide, 1, ""
	}),
	"seed_oss": llamaLike.as(func(d *decoder) {
		d.qkvBias, d.oBias, d.mlpBias, d.outDrop = "attention_bias", "attention_out_bias", "mlp_bias", "residual_dropout"
	}),
	"glm": llamaLike.as(func(d *decoder) {
		d.qkvBias, d.gateUp, d.rope, d.spread = "attention_bias", "gate_up_proj", ropePartial, 1
	}),
	"glm4": llamaLike.as(func(d *decoder) {
		d.qkvBias, d.gateUp, d.rope, d.spread = "attention_bias", "gate_up_proj", ropePartial, 1
		d.attnOut, d.mlpOut = "post_self_attn_layernorm", "post_mlp_layernorm"
	}),
	"olmoe": llamaLike.as(func(d *decoder) {
		d.qkvBias, d.oBias, d.tune, d.moe = "attention_bias", "attention_bias", wholeQKNorm, olmoeExperts
	}),
	"phi3": llamaLike.as(func(d *decoder) {
		d.qkv, d.gateUp, d.rope, d.outDrop, d.window = "qkv_proj", "gate_up_proj", ropePartial, "resid_pdrop", slidingAll
	}),
	"phi": llamaLike.as(func(d *decoder) {
		d.norm, d.normBias, d.o, d.gate, d.up, d.down, d.final = layerNormKind, true, "dense", "", "fc1", "fc2", "final_layernorm"
		d.mlpIn, d.parallel, d.qkvBias, d.oBias, d.mlpBias, d.headBias = "", "yes", "yes", "yes", "yes", "yes"
		d.rope, d.outDrop, d.embedDrop, d.tune = ropePartial, "resid_pdrop", "embd_pdrop", phiNorms
	}),
	"starcoder2": llamaLike.as(func(d *decoder) {
		d.norm, d.normBias, d.gate, d.up, d.down = layerNormKind, true, "", "c_fc", "c_proj"
		d.qkvBias, d.oBias, d.mlpBias, d.outDrop, d.embedDrop, d.window = "use_bias", "use_bias", "use_bias", "residual_dropout",
			"embedding_dropout", slidingAll
	}),
	"cohere": llamaLike.as(func(d *decoder) {
		d.norm, d.mlpIn, d.parallel, d.rope = cohereNormKind, "", "yes", ropeWide
		d.qkvBias, d.oBias, d.tune = "attention_bias", "attention_bias", cohereHeads
	}),
	"cohere2": llamaLike.as(func(d *decoder) {
		d.norm, d.mlpIn, d.parallel, d.rope, d.window = cohereNormKind, "", "yes", ropeWide, slidingGemma(4)
		d.qkvBias, d.oBias, d.tune = "attention_bias", "attention_bias", turnedInWindows
	}),
	"stablelm": llamaLike.as(func(d *decoder) {
		d.norm, d.normBias, d.rope, d.qkvBias, d.parallel = layerNormKind, true, ropePartial, "use_qkv_bias",
			"use_parallel_residual"
		d.outDrop, d.tune = "hidden_dropout", stableHeads
	}),
	"mixtral": llamaLike.as(func(d *decoder) { d.moe, d.window = mixtralExperts, slidingAll }),
	"granitemoe": llamaLike.as(func(d *decoder) {
		d.qkvBias, d.oBias, d.scaledEmbed, d.tune, d.moe = "attention_bias", "attention_bias", true, scaledParts, graniteExperts
	}),
	"granitemoeshared": llamaLike.as(func(d *decoder) {
		d.qkvBias, d.oBias, d.scaledEmbed, d.tune, d.moe = "attention_bias", "attention_bias", true, scaledParts, graniteShared
	}),
	"glm4_moe": llamaLike.as(func(d *decoder) {
		d.qkvBias, d.rope, d.setup, d.moe = "attention_bias", ropePartial, glmNorms, glmExperts
	}),
	"ernie4_5_moe": llamaLike.as(func(d *decoder) {
		d.qkvBias, d.oBias, d.mlpBias, d.rope, d.spread, d.attnDrop, d.moe = "use_bias", "use_bias", "use_bias", ropeWide, 1, "",
			ernieExperts
		d.headBias = "use_bias"
	}),
	"minimax_m2": llamaLike.as(func(d *decoder) { d.rope, d.tune, d.moe = ropePartial, wholeQKNorm, minimaxExperts }),
	"phimoe": llamaLike.as(func(d *decoder) {
		d.norm, d.normBias, d.qkvBias, d.oBias, d.headBias, d.moe = layerNormKind, true, "attention_bias", "attention_bias",
			"lm_head_bias", phimoeExperts
	}),
	"qwen2_moe": llamaLike.as(func(d *decoder) { d.qkvBias, d.moe = "qkv_bias", qwenExperts }),
	"qwen3_moe": llamaLike.as(func(d *decoder) {
		d.qkvBias, d.oBias, d.qNorm, d.kNorm, d.moe = "attention_bias", "attention_bias", "q_norm", "k_norm", qwenExperts
	}),
	"gpt_oss": llamaLike.as(func(d *decoder) {
		d.norm = rmsWideKind
		d.qkvBias, d.oBias, d.window, d.moe, d.tune = "attention_bias", "attention_bias", slidingGemma(2), ossExperts, withSinks
	}),
	"llama4_text": llamaLike.as(func(d *decoder) {
		d.mlp, d.qkvBias, d.oBias, d.moe, d.window, d.tune = "feed_forward.", "attention_bias", "attention_bias", llama4Experts,
			llama4Window, turnedSmol
		d.inner = func(c *modelfile.Config) int64 { return c.Int("intermediate_size_mlp") }
	}),
	"falcon_h1": llamaLike.as(func(d *decoder) {
		d.mlp, d.mlpIn, d.final, d.mixer, d.both = "feed_forward.", "pre_ff_layernorm", "final_layernorm", falconMixer, true
		d.qkvBias, d.oBias, d.mlpBias = "attention_bias", "attention_bias", "mlp_bias"
	}),
	"bamba": llamaLike.as(func(d *decoder) {
		d.mlp, d.mlpIn, d.final = "feed_forward.", "pre_ff_layernorm", "final_layernorm"
		d.mixer, d.rope = bambaMixer, ropePartial
		d.qkvBias, d.oBias, d.mlpBias = "attention_bias", "attention_bias", "mlp_bias"
	}),
	"jamba": llamaLike.as(func(d *decoder) {
		d.mlp, d.mlpIn, d.final, d.mixer, d.moe, d.rope = "feed_forward.", "pre_ff_layernorm", "final_layernorm", jambaMixer,
			jambaExperts, ropeNone
	}),
	"granitemoehybrid": llamaLike.as(func(d *decoder) {
		d.qkvBias, d.oBias, d.scaledEmbed = "attention_bias", "attention_bias", true
		d.tune, d.moe, d.mixer, d.setup = scaledParts, graniteHybrid, graniteMixer, graniteRope
	}),
	"lfm2": llamaLike.as(func(d *decoder) {
		d.attnIn, d.mlpIn, d.final = "operator_norm", "ffn_norm", "embedding_norm"
		d.mlp, d.gate, d.up, d.down = "feed_forward.", "w1", "w3", "w2"
		d.o, d.qNorm, d.kNorm, d.mixer, d.inner = "out_proj", "q_layernorm", "k_layernorm", lfmMixer, lfmInner
	}),
	"gpt2": {
		model: "transformer.", embed: "wte", positions: "wpe", layers: "h.", final: "ln_f", head: "lm_head",
		norm: layerNormKind, normBias: true, attn: "attn.", qkv: "c_attn", o: "c_proj", conv1D: true, oBias: "yes",
		qkvBias: "yes",
		mlp:     "mlp.", up: "c_fc", down: "c_proj", attnIn: "ln_1", mlpIn: "ln_2", act: "activation_function", mlpBias: "yes",
		outDrop: "resid_pdrop", embedDrop: "embd_pdrop", attnDrop: "attn_pdrop", tune: gpt2Attention, kvHeads: everyHead,
	},
	"gpt_bigcode": {
		model: "transformer.", embed: "wte", positions: "wpe", layers: "h.", final: "ln_f", head: "lm_head",
		norm: layerNormKind, normBias: true, attn: "attn.", qkv: "c_attn", o: "c_proj", qkvBias: "yes", oBias: "yes",
		mlp: "mlp.", up: "c_fc", down: "c_proj", attnIn: "ln_1", mlpIn: "ln_2", act: "activation_function", mlpBias: "yes",
		outDrop: "resid_pdrop", embedDrop: "embd_pdrop", attnDrop: "attn_pdrop", kvHeads: bigCodeKV,
		inner: func(c *modelfile.Config) int64 { return c.IntOr("n_inner", 4*c.Int("hidden_size")) },
	},
	"gpt_neo": {
		model: "transformer.", embed: "wte", positions: "wpe", layers: "h.", final: "ln_f", head: "lm_head",
		norm: layerNormKind, normBias: true, attn: "attn.attention.", q: "q_proj", k: "k_proj", v: "v_proj", o: "out_proj",
		oBias: "yes",
		mlp:   "mlp.", up: "c_fc", down: "c_proj", attnIn: "ln_1", mlpIn: "ln_2", act: "activation_function", mlpBias: "yes",
		outDrop: "resid_dropout", embedDrop: "embed_dropout", attnDrop: "attention_dropout", tune: neoAttention,
		kvHeads: everyHead,
	},
	"gptj": {
		model: "transformer.", embed: "wte", layers: "h.", final: "ln_f", head: "lm_head", headBias: "yes",
		norm: layerNormKind, normBias: true, attn: "attn.", q: "q_proj", k: "k_proj", v: "v_proj", o: "out_proj",
		mlp: "mlp.", up: "fc_in", down: "fc_out", attnIn: "ln_1", act: "activation_function", mlpBias: "yes", parallel: "yes",
		outDrop: "resid_pdrop", embedDrop: "embd_pdrop", attnDrop: "attn_pdrop", rope: ropePartial, spread: 2, tune: neoAttention,
		kvHeads: everyHead,
	},
	"gpt_neox": {
		model: "gpt_neox.", embed: "embed_in", layers: "layers.", final: "final_layer_norm", head: "lm_head",
		norm: layerNormKind, normBias: true, attn: "attention.", qkv: "query_key_value", o: "dense", qkvBias: "attention_bias",
		oBias: "attention_bias",
		mlp:   "mlp.", up: "dense_h_to_4h", down: "dense_4h_to_h", attnIn: "input_layernorm", mlpIn: "post_attention_layernorm",
		act: "hidden_act", mlpBias: "yes",
		parallel: "use_parallel_residual", outDrop: "hidden_dropout", embedDrop: "hidden_dropout", attnDrop: "attention_dropout",
		rope: ropePartial, kvHeads: everyHead,
	},
	"opt": {
		model: "model.decoder.", bare: "decoder.", embed: "embed_tokens", positions: "embed_positions", layers: "layers.",
		final: "final_layer_norm", head: "lm_head",
		norm: layerNormKind, normBias: true, attn: "self_attn.", q: "q_proj", k: "k_proj", v: "v_proj", o: "out_proj",
		qkvBias: "enable_bias", oBias: "enable_bias",
		up: "fc1", down: "fc2", attnIn: "self_attn_layer_norm", mlpIn: "final_layer_norm", act: "activation_function",
		mlpBias: "enable_bias",
		outDrop: "dropout", attnDrop: "attention_dropout", setup: optSetup, tune: optLayer, kvHeads: everyHead,
		inner: func(c *modelfile.Config) int64 { return c.Int("ffn_dim") },
	},
	"bloom": {
		model: "transformer.", embed: "word_embeddings", layers: "h.", final: "ln_f", head: "lm_head",
		norm: layerNormKind, normBias: true, attn: "self_attention.", qkv: "query_key_value", o: "dense", qkvBias: "yes",
		oBias: "yes",
		mlp:   "mlp.", up: "dense_h_to_4h", down: "dense_4h_to_h", attnIn: "input_layernorm", mlpIn: "post_attention_layernorm",
		mlpBias: "yes",
		outDrop: "hidden_dropout", attnDrop: "attention_dropout", setup: bloomSetup, tune: bloomLayer, kvHeads: everyHead,
		inner: func(c *modelfile.Config) int64 { return 4 * c.Int("hidden_size") },
	},
	"falcon": {
		model: "transformer.", embed: "word_embeddings", layers: "h.", final: "ln_f", head: "lm_head",
		norm: layerNormKind, normBias: true, attn: "self_attention.", qkv: "query_key_value", o: "dense", qkvBias: "bias",
		oBias: "bias",
		mlp:   "mlp.", up: "dense_h_to_4h", down: "dense_4h_to_h", attnIn: "input_layernorm", mlpIn: "post_attention_layernorm",
		mlpBias: "bias", act: "activation",
		outDrop: "hidden_dropout", attnDrop: "attention_dropout", tune: falconLayer, kvHeads: falconKV, rope: ropeFull,
		parallel: "parallel_attn",
		inner:    func(c *modelfile.Config) int64 { return c.IntOr("ffn_hidden_size", 4*c.Int("hidden_size")) },
	},
}

func (b *builder) flag(name string) bool {
	return name == "yes" || name != "" && b.c.Bool(name)
}

// drop is a dropout field's probability.
func (b *builder) drop(name string) float64 {
	if name == "" {
		return 0
	}
	return b.c.Float(name)
}

// buildDecoder builds the network of a row.
func buildDecoder(b *builder, d decoder) {
	c, m := b.c, b.m
	h, a := c.Int("hidden_size"), c.Int("num_attention_heads")
	if !b.need("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads") {
		return
	}
	k, hd, inner := d.sizes(b, h, a)
	m.hidden, m.wordWidth, m.vocab = h, h, c.Int("vocab_size")
	m.scaled = d.scaledEmbed
	if d.rope != ropeNone {
		m.ropeDim = hd
	}
	root, kind := b.prefix, b.headKind()
	switch {
	case kind == headSpan && d.model == llamaLike.model:
		b.prefix += "transformer."
	case kind == headNone:
		b.prefix += d.bare
	default:
		b.prefix += d.model
	}
	b.embedding(d.embed, m.vocab, h)
	m.embedDrop = b.drop(d.embedDrop)
	if d.positions != "" {
		m.position = b.param(d.positions+".weight", RolePosition, c.Int("max_position_embeddings"), h)
	}
	if d.setup != nil {
		d.setup(b, &d)
	}
	rot := rotary{kind: d.rope, dim: hd, of: hd}
	if d.rope == ropePartial {
		rot = b.partial(hd)
	}
	rot.spread = d.spread
	b.layers(d.layers, c.Int("num_hidden_layers"), func(i int64) {
		at := &attention{heads: a, kv: k, d: hd, dv: hd, rope: rot, dropout: b.drop(d.attnDrop)}
		m.blocks = append(m.blocks, b.decoderLayer(&d, i, at, h, inner))
	})
	if d.noNorms {
		m.final = &norm{kind: d.norm, size: h}
	} else if d.final != "" {
		m.final = b.norm(d.final, d.norm, h, d.normBias)
	}
	b.prefix = root
	b.decoderHead(&d, kind)
}

// sizes are the key and value heads, the width of a head, and that of the feed-forward.
func (d *decoder) sizes(b *builder, h, a int64) (k, hd, inner int64) {
	c := b.c
	k, inner = c.IntOr("num_key_value_heads", a), c.IntOr("intermediate_size", 4*h)
	if d.kvHeads != nil {
		k = d.kvHeads(c)
	}
	b.heads(h, a, k)
	hd = b.headDim(h, a)
	if d.kvHeads != nil || d.conv1D { // families whose head is always h/a
		hd = h / a
	}
	if d.inner != nil {
		inner = d.inner(c)
	}
	if c.Has("n_inner") && d.conv1D || c.Type == "gptj" {
		inner = c.IntOr("n_inner", 4*h)
	}
	return k, hd, inner
}

// decoderLayer is one layer of a row around its attention.
func (b *builder) decoderLayer(d *decoder, i int64, at *attention, h, inner int64) *block {
	c := b.c
	bl := &block{attn: at, parallel: b.flag(d.parallel), drop: b.drop(d.outDrop)}
	if d.window != nil {
		at.window = d.window(c, i)
	}
	norm := func(name string) *norm {
		if name == "" {
			return nil
		}
		if d.noNorms {
			return &norm{kind: d.norm, size: h}
		}
		return b.norm(name, d.norm, h, d.normBias)
	}
	bl.attnIn = norm(d.attnIn)
	if d.mixer != nil {
		bl.mixer = d.mixer(b, i, h)
	}
	if bl.mixer != nil && !d.both {
		bl.attn = nil
	} else {
		b.under(d.attn, func() { b.projections(d, at, h) })
	}
	bl.attnOut = norm(d.attnOut)
	if c.Type == "gpt2" && c.Bool("add_cross_attention") {
		cross := &attention{heads: at.heads, kv: at.heads, d: at.d, dv: at.d, dropout: b.drop(d.attnDrop), bidirectional: true}
		b.under("crossattention.", func() {
			cross.k, cross.q = b.conv1D("c_attn", RoleAttention, h, 2*h), b.conv1D("q_attn", RoleAttention, h, h)
			cross.o = b.conv1D("c_proj", RoleAttention, h, h)
		})
		bl.cross, bl.crossIn = cross, norm("ln_cross_attn")
	}
	bl.mlpIn = norm(d.mlpIn)
	if d.moe != nil {
		bl.ff = d.moe(b, i)
	}
	if bl.ff == nil {
		b.under(d.mlp, func() { bl.ff = b.feedForward(d, h, inner) })
	}
	bl.mlpOut = norm(d.mlpOut)
	if d.tune != nil {
		d.tune(b, d, &layerDraft{i: i, attn: at, block: bl})
	}
	return bl
}

func (b *builder) projections(d *decoder, at *attention, h int64) {
	hq, hk := at.heads*at.d, at.kv*at.d
	switch {
	case d.qkv != "" && d.conv1D:
		at.q, at.fused = b.conv1D(d.qkv, RoleAttention, h, hq+2*hk), true
		at.o = b.conv1D(d.o, RoleAttention, hq, h)
		return
	case d.qkv != "":
		at.q, at.fused = b.linear(d.qkv, RoleAttention, h, hq+2*hk, b.flag(d.qkvBias)), true
	default:
		at.q = b.linear(d.q, RoleAttention, h, hq, b.flag(d.qkvBias))
		at.k = b.linear(d.k, RoleAttention, h, hk, b.flag(d.qkvBias))
		at.v = b.linear(d.v, RoleAttention, h, hk, b.flag(d.qkvBias))
	}
	at.o = b.linear(d.o, RoleAttention, hq, h, b.flag(d.oBias))
	if d.qNorm != "" {
		at.qNorm = b.norm(d.qNorm, d.norm, at.d, false)
		at.kNorm = b.norm(d.kNorm, d.norm, at.d, false)
	}
}

func (b *builder) feedForward(d *decoder, h, inner int64) feedForward {
	f := &mlp{act: b.activation(d.act), drop: 0}
	if d.act == "" {
		f.act = actGelu
	}
	bias := b.flag(d.mlpBias)
	switch {
	case d.conv1D:
		f.up, f.down = b.conv1D(d.up, RoleMLP, h, inner), b.conv1D(d.down, RoleMLP, inner, h)
	case d.gateUp != "":
		f.up, f.fused = b.linear(d.gateUp, RoleMLP, h, 2*inner, bias), true
		f.down = b.linear(d.down, RoleMLP, inner, h, bias)
	default:
		if d.gate != "" {
			f.gate = b.linear(d.gate, RoleMLP, h, inner, bias)
		}
		f.up = b.linear(d.up, RoleMLP, h, inner, bias)
		f.down = b.linear(d.down, RoleMLP, inner, h, bias)
	}
	return f
}

// partial is a rotation of part of each head.
func (b *builder) partial(hd int64) rotary {
	c := b.c
	dim := int64(float64(hd) * c.Float("partial_rotary_factor"))
	if p, ok := c.Get("rope_parameters").(map[string]any); ok && p["partial_rotary_factor"] != nil {
		dim = int64(float64(hd) * modelfile.New("", p).Float("partial_rotary_factor"))
	}
	switch c.Type {
	case "gpt_neox", "gpt_neox_reward_model":
		dim = int64(float64(hd) * c.Float("rotary_pct"))
	case "phi3":
		dim = hd
		if f := c.Float("partial_rotary_factor"); f > 0 {
			dim = int64(float64(hd) * f)
		}
	case "gptj":
		dim = c.IntOr("rotary_dim", hd)
	}
	if dim <= 0 || dim > hd {
		dim = hd
	}
	b.m.ropeDim = dim
	return rotary{kind: ropePartial, dim: dim, of: hd}
}

func (b *builder) embedding(name string, vocab, width int64) {
	b.m.embed = b.param(name+".weight", RoleEmbedding, vocab, width)
}

// oneScale are families that scale either the embeddings or the logits, not both.
var oneScale = map[string]bool{"gemma": true, "gemma2": true, "gemma3_text": true, "cohere": true, "cohere2": true}

// tokenHeads is what families call the head that labels tokens, "score" where they aren't here.
var tokenHeads = map[string]string{"gpt2": "classifier", "gpt_neox": "classifier", "gpt_neo": "classifier", "bloom": "classifier",
	"falcon": "classifier"}

// decoderHead puts the head on.
func (b *builder) decoderHead(d *decoder, kind headKind) {
	c, m := b.c, b.m
	switch kind {
	case headDefault, headLM, headSeq2Seq, headDouble:
		m.softcap = c.Float("final_logit_softcapping") > 0
		m.scaleHead = d.scaledEmbed != oneScale[c.Type]
		b.wordHead(taskCausal, d.head, m.wordWidth)
		if b.flag(d.headBias) {
			m.head.bias = b.param(d.head+".bias", RoleHead, m.vocab)
		}
		if kind == headDouble {
			if c.Type != "gpt2" {
				b.noHead()
			}
			b.linear("multiple_choice_head.summary", RoleOther, m.wordWidth, 1, true)
		}
	case headNone:
		m.task = taskBackbone
	case headSequence:
		b.classifier(taskClassify, "score", m.wordWidth, c.Labels(), false)
	case headReward:
		b.classifier(taskClassify, "out_proj", m.wordWidth, 1, true)
	case headToken:
		m.task, m.vocab = taskTokens, c.Labels()
		m.head = b.linear(cmp.Or(tokenHeads[c.Type], "score"), RoleHead, m.wordWidth, c.Labels(), true)
	case headSpan:
		b.classifier(taskTokens, "qa_outputs", m.wordWidth, 2, true)
	default:
		b.noHead()
	}
}
