package network

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Encoders: BERT and its kin, and the vision encoders.

// bertNames are what a BERT-like family calls its tensors.
type bertNames struct {
	model, layer          string
	attention, fed        string // a layer's parts
	embedNorm             string
	hiddenDrop, scoreDrop string
	act                   string
	pooler                string
	embedSize             string // field of the embeddings' width, empty: the stream's
	widen                 string // projection from that, where there always is one
	crosses               bool   // has a decoder with attention to an encoder
}

var bertLike = bertNames{
	model: "bert.", layer: "encoder.layer.",
	attention: "q=attention.self.query+ k=attention.self.key+ v=attention.self.value+ o=attention.output.dense+ " +
		"attnOut=attention.output.LayerNorm+",
	fed:        "up=intermediate.dense+ down=output.dense+ mlpOut=output.LayerNorm+",
	embedNorm:  "embeddings.LayerNorm",
	hiddenDrop: "hidden_dropout_prob", scoreDrop: "attention_probs_dropout_prob", act: "hidden_act", pooler: "pooler.dense",
	crosses: true,
}

// looks is an encoder's attention of a heads, to all positions; dropout is on its scores, and on its result.
func (b *builder) looks(h, a int64, dropout, outDrop float64) *Attention {
	return &Attention{Heads: a, KV: a, Width: h / a, dv: h / a, dropout: dropout, outDrop: outDrop, plainSoftmax: true,
		bidirectional: true}
}

// divided checks that a heads have whole channels of h.
func divided(b *builder, h, a int64) {
	if a <= 0 || h%a != 0 {
		b.fail("%s: a hidden size of %d cannot be divided into %d heads", b.c.Type, h, a)
	}
}

// bertLayer is one post-norm encoder layer.
func (b *builder) bertLayer(n bertNames, h, a, inner int64) *Block {
	at := b.looks(h, a, b.drop(n.scoreDrop), b.drop(n.hiddenDrop))
	cross := *at
	at.bidirectional = !b.c.Bool("is_decoder")
	bl := &Block{Attention: at, FF: &mlp{act: b.activation(n.act), drop: at.outDrop}, postNorm: true}
	p := parts{builder: b, block: bl, h: h, inner: inner}
	if p.make(n.attention); n.crosses && b.c.Bool("add_cross_attention") {
		bl.Cross, p.at = &cross, &cross
		b.under("cross", func() { p.make(strings.Replace(n.attention, "attnOut", "crossIn", 1)) })
	}
	p.make(n.fed)
	return bl
}

func (b *builder) bertBody(n bertNames, positions, types int64) (h int64) {
	h, a := bertFront(b, n, positions, types)
	b.layers(n.layer, b.c.Int("num_hidden_layers"), func(int64) {
		b.m.Blocks = append(b.m.Blocks, b.bertLayer(n, h, a, b.c.Int("intermediate_size")))
	})
	return h
}

// bertFront are the embeddings, of a width of their own where the family has one.
func bertFront(b *builder, n bertNames, positions, types int64) (h, a int64) {
	c, m := b.c, b.m
	h, a = c.Int("hidden_size"), c.Int("num_attention_heads")
	b.need("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings")
	divided(b, h, a)
	m.Hidden, m.WordWidth, m.Vocab, m.DirectLoss = h, h, c.Int("vocab_size"), true
	e := h
	if n.embedSize != "" {
		e = c.IntOr(n.embedSize, h)
	}
	b.embedding("embeddings.word_embeddings", m.Vocab, e)
	m.Position = b.param("embeddings.position_embeddings.weight", RolePosition, positions, e)
	if types > 0 {
		m.types = b.param("embeddings.token_type_embeddings.weight", RoleEmbedding, types, e)
	}
	m.embedNorm = b.norm(n.embedNorm, layerNormKind, e, true)
	m.embedDrop = b.drop(n.hiddenDrop)
	if e != h || n.widen != "" {
		m.widen = b.linear(cmp.Or(n.widen, "embeddings_project"), RoleEmbedding, e, h, true)
	}
	return h, a
}

// transform is the dense, activation and norm in front of a masked head.
func (b *builder) transform(dense, norm string, h, out int64, act activation) {
	b.m.headParts = []any{b.linear(dense, RoleHead, h, out, true), act, b.norm(norm, layerNormKind, out, true)}
}

// maskedHead is the decoder over the vocabulary, tied unless the file says not.
func (b *builder) maskedHead(name string, bias *parameter) {
	m := b.m
	b.wordHead(taskMasked, name, m.Embed.Shape[1])
	if m.Head.Bias = bias; bias != nil && !m.Tied && bias.Name != name+".bias" { // tied as the words' vectors are
		m.Head.Bias = b.param(name+".bias", RoleHead, m.Vocab)
	}
	if b.c.Bool("is_decoder") || b.headKind() == headLM {
		m.Task, m.DirectLoss = TaskCausal, false
	}
}

// pooler is a dense layer on the first token, for what looks at whole sequences.
func (b *builder) pooler(kind headKind, name string, h int64, act activation) {
	l := b.linear(name, RoleOther, h, h, true)
	if kind == headSequence || kind == headChoice {
		b.m.headParts = []any{l, act}
	}
}

func buildBERT(b *builder) {
	n := bertLike
	kind := b.headUnder(n.model, headDefault)
	h := b.bertBody(n, b.c.Int("max_position_embeddings"), b.c.Int("type_vocab_size"))
	if kind == headNone || kind == headDefault || kind == headSequence || kind == headPreTraining || kind == headChoice {
		b.pooler(kind, n.pooler, h, actTanh)
	}
	b.prefix = ""
	switch kind {
	case headMasked, headPreTraining, headLM:
		bias := b.param("cls.predictions.bias", RoleHead, b.m.Vocab)
		b.transform("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", h, h, b.activation(n.act))
		b.maskedHead("cls.predictions.decoder", bias)
		if kind == headPreTraining {
			b.linear("cls.seq_relationship", RoleOther, h, 2, true)
		}
	default:
		b.simpleHead(kind, h)
	}
}

// simpleHead is a classifier on tokens, sequences or spans, or nothing.
func (b *builder) simpleHead(kind headKind, h int64) {
	c, m := b.c, b.m
	switch kind {
	case headDefault, headNone:
		m.Task = TaskBackbone
	case headSequence, headChoice:
		n := c.Labels()
		if kind == headChoice {
			n = 1
		}
		b.classifier(TaskClassify, "classifier", h, n, true)
	case headToken:
		b.classifier(TaskTokens, "classifier", h, c.Labels(), true)
	case headSpan:
		b.classifier(TaskTokens, "qa_outputs", h, 2, true)
	default:
		b.noHead()
	}
}

func buildRoBERTa(b *builder) {
	n := bertLike
	n.model = "roberta."
	kind := b.headUnder(n.model)
	h := b.bertBody(n, b.c.Int("max_position_embeddings"), b.c.Int("type_vocab_size"))
	if kind == headNone || kind == headChoice {
		b.pooler(kind, n.pooler, h, actTanh)
	}
	b.prefix = ""
	switch kind {
	case headMasked, headLM, headDefault:
		bias := b.param("lm_head.bias", RoleHead, b.m.Vocab)
		b.transform("lm_head.dense", "lm_head.layer_norm", h, h, actGelu)
		b.maskedHead("lm_head.decoder", bias)
	case headSequence:
		b.pooler(kind, "classifier.dense", h, actTanh)
		b.classifier(TaskClassify, "classifier.out_proj", h, b.c.Labels(), true)
	default:
		b.simpleHead(kind, h)
	}
}

// buildELECTRA has embeddings of a width of their own, and in front of the words of
// its generator's head what brings the stream back to it.
func buildELECTRA(b *builder) {
	n := bertLike
	n.model, n.embedSize = "electra.", "embedding_size"
	c, m := b.c, b.m
	kind := b.headUnder(n.model, headDefault)
	h := b.bertBody(n, c.Int("max_position_embeddings"), c.Int("type_vocab_size"))
	b.prefix = ""
	switch kind {
	case headMasked, headLM:
		b.transform("generator_predictions.dense", "generator_predictions.LayerNorm", h, m.Embed.Shape[1], actGelu)
		b.maskedHead("generator_lm_head", b.param("generator_lm_head.bias", RoleHead, m.Vocab))
	case headPreTraining: // one score for each token: is it another's?
		m.headParts = []any{b.linear("discriminator_predictions.dense", RoleHead, h, h, true),
			b.activation(n.act)}
		b.classifier(TaskTokens, "discriminator_predictions.dense_prediction", h, 1, true)
	case headSequence:
		b.pooler(kind, "classifier.dense", h, actGelu)
		b.classifier(TaskClassify, "classifier.out_proj", h, c.Labels(), true)
	case headChoice: // a summary of the first token
		b.pooler(kind, "sequence_summary.summary", h, actGelu)
		b.simpleHead(kind, h)
	default:
		b.simpleHead(kind, h)
	}
}

func buildDistilBERT(b *builder) {
	n := bertNames{
		model: "distilbert.", layer: "transformer.layer.",
		attention:  "q=attention.q_lin+ k=attention.k_lin+ v=attention.v_lin+ o=attention.out_lin+ attnOut=sa_layer_norm+",
		fed:        "up=ffn.lin1+ down=ffn.lin2+ mlpOut=output_layer_norm+",
		embedNorm:  "embeddings.LayerNorm",
		hiddenDrop: "dropout", scoreDrop: "attention_dropout", act: "activation",
	}
	c := b.c
	kind := b.headUnder(n.model)
	inner := c.With("intermediate_size", c.Get("hidden_dim"))
	b.c = inner
	h := b.bertBody(n, c.Int("max_position_embeddings"), 0)
	for _, bl := range b.m.Blocks { // only the feed-forward has dropout on its result
		bl.Attention.outDrop = 0
	}
	b.prefix = ""
	switch kind {
	case headMasked, headDefault, headLM:
		b.transform("vocab_transform", "vocab_layer_norm", h, h, b.activation(n.act))
		b.maskedHead("vocab_projector", nil)
		b.m.Head.Bias = b.param("vocab_projector.bias", RoleHead, b.m.Vocab)
	case headSequence:
		b.pooler(kind, "pre_classifier", h, actRelu)
		b.classifier(TaskClassify, "classifier", h, c.Labels(), true)
	default:
		b.simpleHead(kind, h)
	}
}

func buildModernBERT(b *builder) {
	c, m := b.c, b.m
	h, a := c.Int("hidden_size"), c.Int("num_attention_heads")
	b.need("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
	b.heads(h, a, a)
	divided(b, h, a)
	m.Hidden, m.WordWidth, m.Vocab = h, h, c.Int("vocab_size")
	nb := c.Bool("norm_bias")
	kind := b.headUnder("model.")
	b.embedding("embeddings.tok_embeddings", m.Vocab, h)
	m.embedNorm = b.norm("embeddings.norm", layerNormKind, h, nb)
	m.embedDrop = c.Float("embedding_dropout")
	m.RotaryWidth = h / a
	every, decodes := c.IntOr("global_attn_every_n_layers", 3), c.Type == "modernbert-decoder"
	looks := "qkv=attn.Wqkv?attention_bias "
	if decodes {
		looks = "q=attn.q_proj?attention_bias k=attn.k_proj?attention_bias v=attn.v_proj?attention_bias "
	}
	b.layers("layers.", c.Int("num_hidden_layers"), func(i int64) {
		at := &Attention{Heads: a, KV: a, Width: h / a, dv: h / a, fused: !decodes,
			rope:    rotary{kind: ropeWide, dim: h / a, of: h / a},
			dropout: c.Float("attention_dropout"), bidirectional: !decodes}
		bl := &Block{Attention: at, FF: &mlp{act: b.activation("hidden_activation"), fused: true, inner: c.Float("mlp_dropout")}}
		if layerIs(c, i, every > 0 && i%every != 0, "sliding_attention") {
			if at.Window = c.Int("local_attention"); decodes {
				at.Window = c.Int("sliding_window")
			}
		}
		p := parts{builder: b, block: bl, h: h, inner: c.Int("intermediate_size")}
		if i > 0 {
			p.make("attnIn=attn_norm?norm_bias")
		}
		p.make(looks + "o=attn.Wo?attention_bias mlpIn=mlp_norm?norm_bias gateUp=mlp.Wi?mlp_bias " +
			"down=mlp.Wo?mlp_bias")
		m.Blocks = append(m.Blocks, bl)
	})
	m.final = b.norm("final_norm", layerNormKind, h, nb)
	b.prefix = ""
	modernHead(b, kind, h, decodes)
}

// modernHead is a dense layer and a norm, and what is made of them.
func modernHead(b *builder, kind headKind, h int64, decodes bool) {
	c, m := b.c, b.m
	if kind == headNone {
		m.Task = TaskBackbone
		return
	}
	at := "head."
	if words := kind == headLM || kind == headDefault; decodes && words {
		at = "lm_head."
	}
	m.headParts = []any{b.linear(at+"dense", RoleHead, h, h, c.Bool("classifier_bias")), actGelu,
		b.norm(at+"norm", layerNormKind, h, c.Bool("norm_bias"))}
	switch kind {
	case headMasked, headDefault, headLM:
		b.maskedHead("decoder", nil)
		if c.Bool("decoder_bias") {
			m.Head.Bias = b.param("decoder.bias", RoleHead, m.Vocab)
		}
		if decodes {
			m.Task, m.DirectLoss = TaskCausal, false
		}
	case headSequence:
		b.classifier(TaskClassify, "classifier", h, c.Labels(), !decodes || c.Bool("classifier_bias"))
	default:
		b.simpleHead(kind, h)
	}
}

// visionLayer is a pre-norm encoder layer of an image model, of which words say the parts.
func (b *builder) visionLayer(words string, h, a, inner int64, drop, scoreDrop float64) *Block {
	bl := &Block{Attention: b.looks(h, a, scoreDrop, drop), FF: &mlp{act: b.activation("hidden_act"), drop: drop}}
	if b.c.Bool("use_swiglu_ffn") { // two thirds as wide, in eights
		inner = (inner*2/3 + 7) / 8 * 8
		bl.FF = &mlp{act: actSilu}
		words = strings.Replace(words, "up=mlp.fc1+ down=mlp.fc2+", "gate=mlp.gate_proj+ up=mlp.up_proj+ down=mlp.down_proj+", 1)
	}
	parts{builder: b, block: bl, h: h, inner: inner}.make(words)
	return bl
}

// Layers' parts of families with encoders of images.
const (
	looksPlain = "q=attention.q_proj?qkv_bias k=attention.k_proj?qkv_bias v=attention.v_proj?qkv_bias o=attention.o_proj+ "
	vitParts   = "attnIn=layernorm_before+ " + looksPlain + "mlpIn=layernorm_after+ up=mlp.fc1+ down=mlp.fc2+"
	dinoParts  = "attnIn=norm1+ " + looksPlain + "mlpIn=norm2+ up=mlp.fc1+ down=mlp.fc2+"
	clipParts  = "attnIn=layer_norm1+ q=self_attn.q_proj+ k=self_attn.k_proj+ v=self_attn.v_proj+ o=self_attn.out_proj+ " +
		"mlpIn=layer_norm2+ up=mlp.fc1+ down=mlp.fc2+"
)

// imageSizes reads and checks an image encoder's sizes.
func (b *builder) imageSizes() (h, a, inner, patches, patch int64) {
	c := b.c
	b.need("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "image_size", "patch_size",
		"num_channels")
	h, a, inner = c.Int("hidden_size"), c.Int("num_attention_heads"), c.Int("intermediate_size")
	patch = c.Int("patch_size")
	side := c.Int("image_size") / patch
	divided(b, h, a)
	if side == 0 {
		b.fail("%s: patches of %d pixels do not fit into an image of %d", c.Type, patch, c.Int("image_size"))
	}
	return h, a, inner, side * side, patch
}

// patches is the convolution that makes embeddings of h out of patches of an image.
func (b *builder) patches(name string, h, patch int64) *patching {
	channels, side := b.c.Int("num_channels"), b.c.Int("image_size")
	return &patching{weight: b.param(name+".weight", RoleEmbedding, h, channels, patch, patch), pixels: channels * side * side}
}

// images are the families of one encoder over an image's patches with a token in front. What else one has follows from its
// configuration: the scale of each part's result, gated layers, the feed-forward's width as a multiple, tokens beside the first.
type images struct {
	layer     string
	parts     string // of one
	extra     string // a second token in front, which distillation trains
	bothMeans bool   // the classifier takes the mean of the patches beside the first token
}

func buildImages(b *builder, f images) {
	c, m := b.c, b.m
	if ratio := c.Float("mlp_ratio"); ratio > 0 && !c.Has("intermediate_size") {
		c = c.With("intermediate_size", float64(int64(ratio*float64(c.Int("hidden_size")))))
		b.c = c
	}
	h, a, inner, n, ps := b.imageSizes()
	kind := b.headUnder(c.Type + ".")
	cls := b.param("embeddings.cls_token", RolePosition, 1, 1, h)
	if c.Bool("use_mask_token") {
		b.param("embeddings.mask_token", RolePosition, 1, h)
	}
	before := int64(1)
	if f.extra != "" {
		before++
	}
	m.Position = b.param("embeddings.position_embeddings", RolePosition, 1, n+before, h)
	if f.extra != "" {
		b.param(f.extra, RolePosition, 1, 1, h)
	}
	if r := c.Int("num_register_tokens"); r > 0 {
		b.param("embeddings.register_tokens", RolePosition, 1, r, h)
		before += r
	}
	m.Hidden, m.Patches = h, n+before
	m.Patch = b.patches("embeddings.patch_embeddings.projection", h, ps)
	m.Patch.bias = b.param("embeddings.patch_embeddings.projection.bias", RoleEmbedding, h)
	m.Patch.class, m.Patch.before = cls, before
	m.embedDrop = c.Float("hidden_dropout_prob")
	b.layers(f.layer, c.Int("num_hidden_layers"), func(int64) {
		words := f.parts
		if c.Float("layerscale_value") != 0 {
			words += " attnScale=layer_scale1.lambda1 mlpScale=layer_scale2.lambda1"
		}
		m.Blocks = append(m.Blocks, b.visionLayer(words, h, a, inner, c.Float("hidden_dropout_prob"),
			c.Float("attention_probs_dropout_prob")))
	})
	m.final = b.norm("layernorm", layerNormKind, h, true)
	if kind == headNone {
		if !f.bothMeans {
			b.pooler(kind, "pooler.dense", h, actTanh)
		}
		m.Task = TaskBackbone
		return
	}
	b.prefix = ""
	if kind != headDefault && kind != headImage {
		b.noHead()
	}
	width := h
	if f.bothMeans {
		width = 2 * h
	}
	b.classifier(TaskClassify, "classifier", width, c.Labels(), true)
}

func buildViT(b *builder) {
	f := images{layer: "layers.", parts: vitParts}
	if b.c.Type == "deit" {
		f.extra = "embeddings.distillation_token"
	}
	buildImages(b, f)
}

func buildDINO(b *builder) {
	buildImages(b, images{layer: "encoder.layer.", parts: dinoParts, bothMeans: true})
}

// buildALBERT has few layers, each of which the stream goes through several times.
func buildALBERT(b *builder) {
	n := bertLike
	n.model, n.embedSize, n.widen = "albert.", "embedding_size", "encoder.embedding_hidden_mapping_in"
	n.attention = "q=attention.query+ k=attention.key+ v=attention.value+ o=attention.dense+ attnOut=attention.LayerNorm+"
	n.fed, n.crosses = "up=ffn+ down=ffn_output+ mlpOut=full_layer_layer_norm+", false
	c, m := b.c, b.m
	kind := b.headUnder(n.model, headDefault)
	h, a := bertFront(b, n, c.Int("max_position_embeddings"), c.Int("type_vocab_size"))
	albertLayers(b, n, h, a)
	if !slices.Contains([]headKind{headMasked, headToken, headSpan}, kind) {
		b.pooler(kind, "pooler", h, actTanh)
	}
	b.prefix = ""
	switch kind {
	case headMasked, headPreTraining:
		bias := b.param("predictions.bias", RoleHead, m.Vocab)
		b.transform("predictions.dense", "predictions.LayerNorm", h, m.Embed.Shape[1], b.activation(n.act))
		b.maskedHead("predictions.decoder", bias)
		if kind == headPreTraining {
			b.linear("sop_classifier.classifier", RoleOther, h, c.Labels(), true)
		}
	default:
		b.simpleHead(kind, h)
	}
}

// albertLayers are those of each group, and the order in which they are gone through.
func albertLayers(b *builder, n bertNames, h, a int64) {
	c, m := b.c, b.m
	layers, groups, inner := c.Int("num_hidden_layers"), c.IntOr("num_hidden_groups", 1), c.IntOr("inner_group_num", 1)
	if groups < 1 || inner < 1 || layers > MaxLayers || groups > layers || inner > MaxLayers/layers {
		b.fail("%s: %d layers in %d groups of %d", c.Type, layers, groups, inner)
	}
	for g := range groups {
		b.layers("encoder.albert_layer_groups."+strconv.FormatInt(g, 10)+".albert_layers.", inner, func(int64) {
			bl := b.bertLayer(n, h, a, c.Int("intermediate_size"))
			bl.FF.(*mlp).drop = 0
			m.Blocks = append(m.Blocks, bl)
		})
	}
	for i := range layers {
		group := int64(float64(i) / (float64(layers) / float64(groups)))
		for j := range inner {
			m.order = append(m.order, group*inner+j)
		}
	}
}

// passes are the blocks in the order in which the stream goes through them, some of them more than once.
func (m *Model) passes() []*Block {
	if m.order == nil {
		return m.Blocks
	}
	bs := make([]*Block, len(m.order))
	for i, at := range m.order {
		bs[i] = m.Blocks[at]
	}
	return bs
}
