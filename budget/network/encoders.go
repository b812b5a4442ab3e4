package network

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/budget/modelfile"
)

// Encoders of text: BERT and its kin.

// text is what a family like BERT calls its tensors.
type text struct {
	heads, layer   string // rows of heads.txt, which is the stack's own name, too; and of its layers
	attention, fed string // a layer's parts
	embedSize      string // field of the embeddings' width, empty: the stream's
	widen          string // projection from that, where there always is one
	crosses        bool   // has a decoder with attention to an encoder
	named          bool   // a file that names no class means one with a head
	shares         bool   // the stream goes through few layers several times
}

var bertLike = text{heads: "bert", layer: "encoder.layer.", crosses: true,
	attention: "q=attention.self.query+ k=attention.self.key+ v=attention.self.value+ o=attention.output.dense+ " +
		"attnOut=attention.output.LayerNorm+",
	fed: "up=intermediate.dense+ down=output.dense+ mlpOut=output.LayerNorm+"}

// textLike is a family's. DistilBERT has other names for fields.
func textLike(b *builder) text {
	n := bertLike
	switch t := b.c.Type; t {
	case "electra":
		n.heads, n.embedSize = t, "embedding_size"
	case "roberta", "xlm-roberta", "camembert":
		n.heads, n.named = "roberta", true
	case "albert":
		n = text{heads: t, embedSize: "embedding_size", widen: "encoder.embedding_hidden_mapping_in", shares: true,
			attention: "q=attention.query+ k=attention.key+ v=attention.value+ o=attention.dense+ attnOut=attention.LayerNorm+",
			fed:       "up=ffn+ down=ffn_output+ mlpOut=full_layer_layer_norm+"}
	case "distilbert":
		n = text{heads: t, layer: "transformer.layer.", named: true,
			attention: "q=attention.q_lin+ k=attention.k_lin+ v=attention.v_lin+ o=attention.out_lin+ attnOut=sa_layer_norm+",
			fed:       "up=ffn.lin1+ down=ffn.lin2+ mlpOut=output_layer_norm+"}
		c := b.c
		for to, from := range map[string]string{"intermediate_size": "hidden_dim", "type_vocab_size": "",
			"hidden_act": "activation", "hidden_dropout_prob": "dropout", "attention_probs_dropout_prob": "attention_dropout"} {
			b.c = b.c.With(to, c.Get(from))
		}
	}
	return n
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
func (b *builder) bertLayer(n text, h, a int64) *Block {
	drop, inner := b.drop("hidden_dropout_prob"), b.c.Int("intermediate_size")
	at := b.looks(h, a, b.drop("attention_probs_dropout_prob"), drop)
	cross := *at
	at.bidirectional = !b.c.Bool("is_decoder")
	bl := &Block{Attention: at, FF: &mlp{act: b.activation("hidden_act"), drop: drop}, postNorm: true}
	if b.fill(bl, nil, h, inner, n.attention); n.crosses && b.c.Bool("add_cross_attention") {
		bl.Cross = &cross
		b.under("cross", func() { b.fill(bl, &cross, h, inner, strings.Replace(n.attention, "attnOut", "crossIn", 1)) })
	}
	b.fill(bl, nil, h, inner, n.fed)
	return bl
}

// buildText is BERT or one of its kin.
func buildText(b *builder) {
	n, bare := textLike(b), headDefault
	if n.named {
		bare = headNone
	}
	kind := b.headUnder(n.heads+".", bare)
	h, a := textFront(b, n)
	if n.shares {
		albertLayers(b, n, h, a)
	} else {
		b.layers(n.layer, b.c.Int("num_hidden_layers"), func(int64) { b.m.Blocks = append(b.m.Blocks, b.bertLayer(n, h, a)) })
	}
	if n.heads == "distilbert" { // only the feed-forward has dropout on its result
		for _, bl := range b.m.Blocks {
			bl.Attention.outDrop = 0
		}
	}
	inside := b.prefix
	b.prefix = ""
	b.headOf(n.heads, inside, kind, h)
}

// textFront are the embeddings, of a width of their own where the family has one.
func textFront(b *builder, n text) (h, a int64) {
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
	m.Position = b.param("embeddings.position_embeddings.weight", RolePosition, c.Int("max_position_embeddings"), e)
	if types := c.Int("type_vocab_size"); types > 0 {
		m.types = b.param("embeddings.token_type_embeddings.weight", RoleEmbedding, types, e)
	}
	m.embedNorm = b.norm("embeddings.LayerNorm", layerNormKind, e, true)
	m.embedDrop = b.drop("hidden_dropout_prob")
	if e != h || n.widen != "" {
		m.widen = b.linear(cmp.Or(n.widen, "embeddings_project"), RoleEmbedding, e, h, true)
	}
	return h, a
}

// maskedHead is the decoder over the vocabulary, tied unless the file says not.
func (b *builder) maskedHead(name string, bias *parameter) {
	m := b.m
	b.wordHead(taskMasked, name, m.Embed.Shape[1])
	if m.Head.Bias = bias; bias != nil && !m.Tied && bias.Name != name+".bias" { // tied as the words' vectors are
		m.Head.Bias = b.param(name+".bias", RoleHead, m.Vocab)
	}
	if b.c.Bool("is_decoder") || b.c.Type == "modernbert-decoder" || b.headKind() == headLM {
		m.Task, m.DirectLoss = TaskCausal, false
	}
}

//go:embed heads.txt
var headRows string

// headOf makes what heads.txt has for a kind on a family's stack of h, whose own names begin inside.
func (b *builder) headOf(family, inside string, kind headKind, h int64) {
	bias := (*parameter)(nil)
	for line := range strings.Lines(headRows) {
		whose, steps, _ := strings.Cut(line, ": ")
		if row := strings.Fields(whose); row[0] != family || !slices.Contains(row[1:], headWords[kind]) {
			continue
		}
		for step := range strings.FieldsSeq(steps) {
			bias = headStep(b, step, inside, bias, kind, h)
		}
	}
	if b.m.Head == nil {
		b.simpleHead(kind, h)
	}
}

// headStep is one word of a row; it gives what is to be added to the logits.
func headStep(b *builder, step, inside string, bias *parameter, kind headKind, h int64) *parameter {
	m := b.m
	step, when, some := strings.Cut(step, "@")
	if some && !b.c.Bool(when) {
		return bias
	}
	what, name, _ := strings.Cut(step, "=")
	name, act, _ := strings.Cut(name, "/")
	name, flag, optional := strings.Cut(name, "?")
	name, count, some := strings.Cut(name, ":")
	biased, n := !optional || b.c.Bool(flag), m.Config.Labels()
	if some {
		n = modelfile.AsInt(json.Number(count))
	}
	switch what {
	case "dense":
		m.headParts = []any{b.linear(name, RoleHead, h, h, biased), b.activationOf(act)}
	case "narrow":
		m.headParts = []any{b.linear(name, RoleHead, h, m.Embed.Shape[1], biased), b.activationOf(act)}
	case "norm":
		m.headParts = append(m.headParts, b.norm(name, layerNormKind, m.headParts[0].(*Linear).Out, biased))
	case "pool":
		b.under(inside, func() { pool(b, kind, name, act, h) })
	case "top":
		pool(b, kind, name, act, h)
	case "bias":
		return b.param(name, RoleHead, m.Vocab)
	case "words":
		b.maskedHead(name, bias)
	case "sole":
		m.Head.Bias = b.param(name, RoleHead, m.Vocab)
	default:
		labels(b, what, name, h, n, biased)
	}
	return bias
}

// pool is a dense layer in front of one label for all.
func pool(b *builder, kind headKind, name, act string, h int64) {
	l := b.linear(name, RoleOther, h, h, true)
	if kind == headSequence || kind == headChoice {
		b.m.headParts = []any{l, b.activationOf(act)}
	}
}

// labels makes a head of n labels, or what is in no step.
func labels(b *builder, what, name string, h, n int64, bias bool) {
	switch what {
	case "classify":
		b.classifier(TaskClassify, name, h, n, bias)
	case "tokens":
		b.classifier(TaskTokens, name, h, n, bias)
	case "masks":
		b.wordHead(taskMasked, name, h)
	case "loose":
		b.linear(name, RoleHead, h, h, true)
	case "beside":
		b.linear(name, RoleOther, h, n, true)
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
		if i > 0 {
			b.fill(bl, nil, h, 0, "attnIn=attn_norm?norm_bias")
		}
		b.fill(bl, nil, h, c.Int("intermediate_size"), looks+"o=attn.Wo?attention_bias mlpIn=mlp_norm?norm_bias "+
			"gateUp=mlp.Wi?mlp_bias down=mlp.Wo?mlp_bias")
		m.Blocks = append(m.Blocks, bl)
	})
	m.final = b.norm("final_norm", layerNormKind, h, nb)
	b.prefix = ""
	b.headOf(c.Type, "", kind, h)
}

// albertLayers are those of each group, and the order in which they are gone through.
func albertLayers(b *builder, n text, h, a int64) {
	c, m := b.c, b.m
	layers, groups, inner := c.Int("num_hidden_layers"), c.IntOr("num_hidden_groups", 1), c.IntOr("inner_group_num", 1)
	if groups < 1 || inner < 1 || layers > MaxLayers || groups > layers || inner > MaxLayers/layers {
		b.fail("%s: %d layers in %d groups of %d", c.Type, layers, groups, inner)
	}
	for g := range groups {
		b.layers("encoder.albert_layer_groups."+strconv.FormatInt(g, 10)+".albert_layers.", inner, func(int64) {
			bl := b.bertLayer(n, h, a)
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
