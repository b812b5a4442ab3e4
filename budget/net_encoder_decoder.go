package budget

import "strings"

// Encoder-decoders: m is the decoder, m.encoder the encoder.

func buildT5(b *builder) {
	c, m := b.c, b.m
	if !b.need("vocab_size", "d_model", "d_kv", "d_ff", "num_layers", "num_heads") {
		return
	}
	h, a, d, ff := c.Int("d_model"), c.Int("num_heads"), c.Int("d_kv"), c.Int("d_ff")
	proj := c.Str("feed_forward_proj")
	gated := strings.HasPrefix(proj, "gated-")
	act, known := t5Activations[proj]
	if !known {
		act = actRelu
	}
	drop := c.Float("dropout_rate")
	m.hidden, m.wordWidth, m.vocab, m.directLoss = h, h, c.Int("vocab_size"), true
	b.embedding("shared", m.vocab, h)
	m.embedDrop = drop
	enc := &model{hidden: h, wordWidth: h, embed: m.embed, embedDrop: drop}
	attn := func(name string, cross bool, first bool) *attention {
		at := &attention{heads: a, kv: a, d: d, dv: d, dropout: drop, t5: true, bidirectional: cross, plainSoftmax: true}
		b.under(name+".", func() {
			at.q = b.linear("q", RoleAttention, h, a*d, false)
			at.k = b.linear("k", RoleAttention, h, a*d, false)
			at.v = b.linear("v", RoleAttention, h, a*d, false)
			at.o = b.linear("o", RoleAttention, a*d, h, false)
			if first {
				at.bias = b.param("relative_attention_bias.weight", RolePosition, c.Int("relative_attention_num_buckets"), a)
			}
		})
		return at
	}
	ffn := func(name string) feedForward {
		f := &mlp{act: act, inner: drop}
		b.under(name+".DenseReluDense.", func() {
			if gated {
				f.gate, f.up = b.linear("wi_0", RoleMLP, h, ff, false), b.linear("wi_1", RoleMLP, h, ff, false)
			} else {
				f.up = b.linear("wi", RoleMLP, h, ff, false)
			}
			f.down = b.linear("wo", RoleMLP, ff, h, false)
		})
		return f
	}
	b.layers("encoder.block.", c.Int("num_layers"), func(i int64) {
		bl := &block{attn: attn("layer.0.SelfAttention", true, i == 0), drop: drop}
		bl.attnIn = b.norm("layer.0.layer_norm", rmsT5Kind, h, false)
		bl.ff = ffn("layer.1")
		bl.mlpIn = b.norm("layer.1.layer_norm", rmsT5Kind, h, false)
		enc.blocks = append(enc.blocks, bl)
	})
	enc.final, enc.finalDrop = b.norm("encoder.final_layer_norm", rmsT5Kind, h, false), drop
	kind := b.headKind()
	if kind == headEncoder || kind == headToken {
		*m = model{config: m.config, task: taskBackbone, params: m.params, embed: m.embed, hidden: h, wordWidth: h,
			vocab:     m.vocab,
			embedDrop: drop, blocks: enc.blocks, final: enc.final, finalDrop: drop, directLoss: true}
		if kind == headToken {
			b.classifier(taskTokens, "classifier", h, c.Labels(), true)
		}
		return
	}
	b.layers("decoder.block.", c.IntOr("num_decoder_layers", c.Int("num_layers")), func(i int64) {
		bl := &block{attn: attn("layer.0.SelfAttention", false, i == 0), drop: drop}
		bl.attnIn = b.norm("layer.0.layer_norm", rmsT5Kind, h, false)
		bl.cross = attn("layer.1.EncDecAttention", true, false)
		bl.crossIn = b.norm("layer.1.layer_norm", rmsT5Kind, h, false)
		bl.ff = ffn("layer.2")
		bl.mlpIn = b.norm("layer.2.layer_norm", rmsT5Kind, h, false)
		m.blocks = append(m.blocks, bl)
	})
	m.final, m.finalDrop = b.norm("decoder.final_layer_norm", rmsT5Kind, h, false), drop
	m.encoder = enc
	t5Head(b, kind, h)
}

// t5Activations are those of feed_forward_proj.
var t5Activations = map[string]activation{"gelu": actGelu, "gelu_new": actGeluNew, "silu": actSilu, "gated-gelu": actGeluNew,
	"gated-gelu_new": actGeluNew, "gated-silu": actSilu}

func t5Head(b *builder, kind headKind, h int64) {
	c, m := b.c, b.m
	switch kind {
	case headNone:
		m.task = taskBackbone
		return
	case headSequence:
		b.linear("classification_head.dense", RoleHead, h, h, true)
		b.classifier(taskClassify, "classification_head.out_proj", h, c.Labels(), true)
		return
	case headSpan:
		b.classifier(taskTokens, "qa_outputs", h, 2, true)
		return
	case headDefault, headSeq2Seq, headLM:
	default:
		b.noHead()
		return
	}
	m.task = taskSeq2Seq
	l := &linear{layer: layer{In: h, Out: m.vocab, Weight: m.embed}}
	m.scaleHead = true
	if c.Own("tie_word_embeddings") == false {
		l.Weight, m.scaleHead = b.param("lm_head.weight", RoleHead, m.vocab, h), false
	} else {
		m.tied = true
	}
	m.head = l
}

// stack is one of the two stacks of bart and whisper.
func (b *builder) stack(m *model, prefix string, layers, h, a, inner int64, keyBias, cross, post bool, drop, scoreDrop float64,
	act activation) {
	if a <= 0 || h%a != 0 {
		b.fail("%s: a hidden size of %d cannot be divided into %d heads", b.c.Type, h, a)
		return
	}
	attn := func(name string, bidirectional bool) *attention {
		at := &attention{heads: a, kv: a, d: h / a, dv: h / a, dropout: scoreDrop, plainSoftmax: true,
			bidirectional: bidirectional, byHead: b.c.Type == "whisper", byScale: b.c.Type == "whisper"}
		b.under(name+".", func() {
			at.k = b.linear("k_proj", RoleAttention, h, h, keyBias)
			at.v = b.linear("v_proj", RoleAttention, h, h, true)
			at.q = b.linear("q_proj", RoleAttention, h, h, true)
			at.o = b.linear("out_proj", RoleAttention, h, h, true)
		})
		return at
	}
	b.layers(prefix+"layers.", layers, func(int64) {
		bl := &block{attn: attn("self_attn", !cross), drop: drop, postNorm: post}
		n := b.norm("self_attn_layer_norm", layerNormKind, h, true)
		bl.attnIn, bl.attnOut = n, n
		if cross {
			bl.cross = attn("encoder_attn", true)
			bl.crossIn = b.norm("encoder_attn_layer_norm", layerNormKind, h, true)
		}
		bl.ff = &mlp{act: act, up: b.linear("fc1", RoleMLP, h, inner, true), down: b.linear("fc2", RoleMLP, inner, h, true),
			inner: b.c.Float("activation_dropout")}
		f := b.norm("final_layer_norm", layerNormKind, h, true)
		bl.mlpIn, bl.mlpOut = f, f
		if !post {
			bl.attnOut, bl.mlpOut = nil, nil
		}
		m.blocks = append(m.blocks, bl)
	})
}

func buildBART(b *builder) {
	c, m := b.c, b.m
	if !b.need("vocab_size", "d_model", "encoder_layers", "decoder_layers", "max_position_embeddings") {
		return
	}
	h, pos, drop := c.Int("d_model"), c.Int("max_position_embeddings")+2, c.Float("dropout")
	kind := b.headKind()
	if kind == headLM {
		b.bartDecoder(h, pos, drop)
		return
	}
	if kind != headNone {
		b.prefix = "model."
	}
	m.hidden, m.wordWidth, m.vocab, m.directLoss = h, h, c.Int("vocab_size"), true
	b.embedding("shared", m.vocab, h)
	if !c.Tied() { // each stack has its own table then
		b.remove(m.embed)
		m.params = nil
		b.embedding("shared", m.vocab, h)
	}
	act := b.activation("activation_function")
	enc := &model{hidden: h, wordWidth: h, embed: m.embed, embedDrop: drop}
	enc.position = b.param("encoder.embed_positions.weight", RolePosition, pos, h)
	b.stack(enc, "encoder.", c.Int("encoder_layers"), h, c.Int("encoder_attention_heads"), c.Int("encoder_ffn_dim"), true, false,
		true, drop, c.Float("attention_dropout"), act)
	enc.embedNorm = b.norm("encoder.layernorm_embedding", layerNormKind, h, true)
	m.position = b.param("decoder.embed_positions.weight", RolePosition, pos, h)
	b.stack(m, "decoder.", c.Int("decoder_layers"), h, c.Int("decoder_attention_heads"), c.Int("decoder_ffn_dim"), true, true,
		true, drop, c.Float("attention_dropout"), act)
	m.embedNorm = b.norm("decoder.layernorm_embedding", layerNormKind, h, true)
	m.embedDrop, m.encoder = drop, enc
	b.prefix = ""
	switch kind {
	case headNone:
		m.task = taskBackbone
	case headSeq2Seq, headDefault:
		m.plusBias = true
		m.wideBuffers += float64(m.vocab)
		b.wordHead(taskSeq2Seq, "lm_head", h)
	case headSequence:
		b.linear("classification_head.dense", RoleHead, h, h, true)
		b.classifier(taskClassify, "classification_head.out_proj", h, c.Labels(), true)
	case headSpan:
		b.classifier(taskTokens, "qa_outputs", h, 2, true)
	default:
		b.noHead()
	}
}

// bartDecoder is BartForCausalLM: the decoder and its attention to an encoder,
// without the encoder and the bias of the logits.
func (b *builder) bartDecoder(h, pos int64, drop float64) {
	c, m := b.c, b.m
	b.prefix = "model.decoder."
	m.hidden, m.wordWidth, m.vocab, m.directLoss, m.embedDrop = h, h, c.Int("vocab_size"), true, drop
	b.embedding("embed_tokens", m.vocab, h)
	m.position = b.param("embed_positions.weight", RolePosition, pos, h)
	b.stack(m, "", c.Int("decoder_layers"), h, c.Int("decoder_attention_heads"), c.Int("decoder_ffn_dim"), true, true, true, drop,
		c.Float("attention_dropout"), b.activation("activation_function"))
	m.embedNorm = b.norm("layernorm_embedding", layerNormKind, h, true)
	b.prefix = ""
	b.wordHead(taskCausal, "lm_head", h)
}

func buildWhisper(b *builder) {
	c, m := b.c, b.m
	if !b.need("vocab_size", "d_model", "encoder_layers", "decoder_layers", "num_mel_bins", "max_source_positions",
		"max_target_positions") {
		return
	}
	h, drop := c.Int("d_model"), c.Float("dropout")
	kind := b.headUnder("model.")
	m.hidden, m.wordWidth, m.vocab, m.directLoss = h, h, c.Int("vocab_size"), true
	act := b.activation("activation_function")
	enc := &model{hidden: h, embedDrop: drop, patches: c.Int("max_source_positions")}
	bins := c.Int("num_mel_bins")
	enc.conv = &convolutions{frames: 2 * enc.patches, bins: bins, h: h}
	enc.conv.w1, enc.conv.b1 = b.param("encoder.conv1.weight", RoleEmbedding, h, bins, 3), b.param("encoder.conv1.bias",
		RoleEmbedding, h)
	enc.conv.w2, enc.conv.b2 = b.param("encoder.conv2.weight", RoleEmbedding, h, h, 3), b.param("encoder.conv2.bias",
		RoleEmbedding, h)
	enc.position = b.param("encoder.embed_positions.weight", RolePosition, enc.patches, h)
	enc.position.Trainable = false
	b.stack(enc, "encoder.", c.Int("encoder_layers"), h, c.Int("encoder_attention_heads"), c.Int("encoder_ffn_dim"), false, false,
		false, drop, c.Float("attention_dropout"), act)
	enc.final = b.norm("encoder.layer_norm", layerNormKind, h, true)
	b.embedding("decoder.embed_tokens", m.vocab, h)
	m.position = b.param("decoder.embed_positions.weight", RolePosition, c.Int("max_target_positions"), h)
	b.stack(m, "decoder.", c.Int("decoder_layers"), h, c.Int("decoder_attention_heads"), c.Int("decoder_ffn_dim"), false, true,
		false, drop, c.Float("attention_dropout"), act)
	m.final = b.norm("decoder.layer_norm", layerNormKind, h, true)
	m.embedDrop, m.encoder = drop, enc
	b.prefix = ""
	switch kind {
	case headNone:
		m.task = taskBackbone
	case headSeq2Seq, headDefault:
		b.wordHead(taskSpeech, "proj_out", h)
	default:
		b.noHead()
	}
}

// convolutions are whisper's two in front of the encoder.
type convolutions struct {
	w1, b1, w2, b2  *parameter
	frames, bins, h int64
}

// decodesAlone says whether a decoder could look at an encoder that isn't there.
func (m *model) decodesAlone() bool {
	return m.encoder == nil && m.unet == nil && len(m.blocks) > 0 && m.blocks[0].cross != nil
}
