package network

import (
	"slices"
	"strconv"
)

// buildALBERT has few layers, each of which the stream goes through several times.
func buildALBERT(b *builder) {
	n := bertLike
	n.model, n.embedSize, n.widen = "albert.", "embedding_size", "encoder.embedding_hidden_mapping_in"
	n.attention = "q=attention.query+ k=attention.key+ v=attention.value+ o=attention.dense+ attnOut=attention.LayerNorm+"
	n.fed, n.crosses = "up=ffn+ down=ffn_output+ mlpOut=full_layer_layer_norm+", false
	c, m := b.c, b.m
	kind := b.headUnder(n.model, headDefault)
	h, a := bertFront(b, n, c.Int("max_position_embeddings"), c.Int("type_vocab_size"))
	if b.err == nil {
		albertLayers(b, n, h, a)
	}
	if b.err != nil {
		return
	}
	if !slices.Contains([]headKind{headMasked, headToken, headSpan}, kind) {
		b.pooler(kind, "pooler", h, actTanh)
	}
	b.prefix = ""
	switch kind {
	case headMasked, headPreTraining:
		bias, e := b.param("predictions.bias", RoleHead, m.Vocab), m.Embed.Shape[1]
		m.headParts = []headPart{{lin: b.linear("predictions.dense", RoleHead, h, e, true)}, {kind: 1, act: b.activation(n.act)},
			{kind: 2, norm: b.norm("predictions.LayerNorm", layerNormKind, e, true)}}
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
		return
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
