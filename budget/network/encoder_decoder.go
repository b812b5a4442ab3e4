package network

import (
	"slices"
	"strings"
)

// Encoder-decoders: m is the decoder, m.encoder the encoder.

func buildT5(b *builder) {
	if b.c.Type == "mt5" { // tied, whatever its files say
		b.c = b.c.With("tie_word_embeddings", true)
	}
	c, m := b.c, b.m
	b.need("vocab_size", "d_model", "d_kv", "d_ff", "num_layers", "num_heads")
	h, a, d, ff := c.Int("d_model"), c.Int("num_heads"), c.Int("d_kv"), c.Int("d_ff")
	proj, wi := c.Str("feed_forward_proj"), "up=wi"
	if strings.HasPrefix(proj, "gated-") {
		wi = "gate=wi_0 up=wi_1"
	}
	act, known := t5Activations[proj]
	if !known {
		act = actRelu
	}
	drop := c.Float("dropout_rate")
	m.Hidden, m.WordWidth, m.Vocab, m.DirectLoss = h, h, c.Int("vocab_size"), true
	b.embedding("shared", m.Vocab, h)
	m.embedDrop = drop
	enc := &Model{Hidden: h, WordWidth: h, Embed: m.Embed, embedDrop: drop}
	stack := func(m *Model, side string, layers int64, decodes bool) {
		b.layers(side+".block.", layers, func(i int64) {
			self := &Attention{Heads: a, KV: a, Width: d, dv: d, dropout: drop, t5: true, bidirectional: !decodes,
				plainSoftmax: true}
			cross, ffn := *self, "layer.1"
			bl := &Block{Attention: self, FF: &mlp{act: act, inner: drop}, drop: drop}
			b.under("layer.0.SelfAttention.", func() {
				if b.fill(bl, nil, h, 0, "q=q k=k v=v o=o"); i == 0 {
					self.bias = b.param("relative_attention_bias.weight", RolePosition,
						c.Int("relative_attention_num_buckets"), a)
				}
			})
			bl.attnIn = b.norm("layer.0.layer_norm", rmsT5Kind, h, false)
			if decodes {
				ffn, bl.Cross, cross.bidirectional = "layer.2", &cross, true
				b.under("layer.1.EncDecAttention.", func() { b.fill(bl, &cross, h, 0, "q=q k=k v=v o=o") })
				bl.crossIn = b.norm("layer.1.layer_norm", rmsT5Kind, h, false)
			}
			b.under(ffn+".DenseReluDense.", func() { b.fill(bl, nil, h, ff, wi+" down=wo") })
			bl.mlpIn = b.norm(ffn+".layer_norm", rmsT5Kind, h, false)
			m.Blocks = append(m.Blocks, bl)
		})
		m.final, m.finalDrop = b.norm(side+".final_layer_norm", rmsT5Kind, h, false), drop
	}
	stack(enc, "encoder", c.Int("num_layers"), false)
	kind := b.headKind()
	if kind == headEncoder || kind == headToken {
		if m.Task, m.Blocks, m.final, m.finalDrop = TaskBackbone, enc.Blocks, enc.final, drop; kind == headToken {
			b.classifier(TaskTokens, "classifier", h, c.Labels(), true)
		}
		return
	}
	stack(m, "decoder", c.IntOr("num_decoder_layers", c.Int("num_layers")), true)
	m.Encoder = enc
	if !slices.Contains([]headKind{headDefault, headSeq2Seq, headLM}, kind) {
		otherHead(b, kind, h)
		return
	}
	m.Task, m.scaleHead = taskSeq2Seq, true
	l := &Linear{layer: layer{In: h, Out: m.Vocab, Weight: m.Embed}}
	if c.Own("tie_word_embeddings") == false {
		l.Weight, m.scaleHead = b.param("lm_head.weight", RoleHead, m.Vocab, h), false
	} else {
		m.Tied = true
	}
	m.Head = l
}

// otherHead stands on a decoder where no words are made.
func otherHead(b *builder, kind headKind, h int64) {
	switch kind {
	case headNone, headSequence, headSpan:
		b.headOf("seq2seq", "", kind, h)
	default:
		b.noHead()
	}
}

// t5Activations are those of feed_forward_proj.
var t5Activations = map[string]activation{"gelu": actGelu, "gelu_new": actGeluNew, "silu": actSilu, "gated-gelu": actGeluNew,
	"gated-gelu_new": actGeluNew, "gated-silu": actSilu}

// stack is the encoder's or the decoder's stack of bart and its kin, whose keys have biases, or of whisper; post: its norms come
// behind.
func (b *builder) stack(m *Model, prefix, side string, h int64, bart, post bool, drop float64, act activation) {
	layers, a, inner := b.c.Int(side+"_layers"), b.c.Int(side+"_attention_heads"), b.c.Int(side+"_ffn_dim")
	cross, scoreDrop := side == "decoder", b.c.Float("attention_dropout")
	divided(b, h, a)
	looks := "k=k_proj v=v_proj+ q=q_proj+ o=out_proj+"
	if bart {
		looks = "k=k_proj+ v=v_proj+ q=q_proj+ o=out_proj+"
	}
	b.layers(prefix+"layers.", layers, func(int64) {
		self := b.looks(h, a, scoreDrop, 0)
		self.byHead, self.byScale = !bart, !bart
		other := *self
		self.bidirectional = !cross
		bl := &Block{Attention: self, FF: &mlp{act: act, inner: b.c.Float("activation_dropout")}, drop: drop, postNorm: post}
		b.under("self_attn.", func() { b.fill(bl, nil, h, 0, looks) })
		if b.fill(bl, nil, h, 0, "attnIn=self_attn_layer_norm+"); cross {
			bl.Cross = &other
			b.under("encoder_attn.", func() { b.fill(bl, &other, h, 0, looks) })
			b.fill(bl, nil, h, 0, "crossIn=encoder_attn_layer_norm+")
		}
		b.fill(bl, nil, h, inner, "up=fc1+ down=fc2+ mlpIn=final_layer_norm+")
		m.Blocks = append(m.Blocks, bl)
	})
}

// bartKin is what BART's family differ in.
type bartKin struct {
	before    bool   // norms stand before a layer's parts, and one behind all layers
	embedNorm bool   // and one behind the embeddings
	rows      int64  // of positions, beside those of the configuration
	fixed     bool   // positions are sines, which nothing trains
	listed    bool   // and stand among the parameters
	noBias    bool   // nothing is added to the logits
	words     string // the field of how many the decoder alone has
}

var bartKins = map[string]bartKin{
	"bart":             {embedNorm: true, rows: 2},
	"blenderbot":       {before: true},
	"blenderbot-small": {embedNorm: true},
	"m2m_100":          {before: true, rows: 2, fixed: true, noBias: true},
	"marian":           {fixed: true, listed: true, words: "decoder_vocab_size"},
	"mbart":            {before: true, embedNorm: true, rows: 2},
	"pegasus":          {before: true, fixed: true, listed: true},
}

// fill makes all of a stack behind its table of words.
func (k bartKin) fill(b *builder, m *Model, prefix, side string, h int64) {
	c := b.c
	rows := c.Int("max_position_embeddings") + k.rows
	name := prefix + "embed_positions.weight"
	if m.embedDrop = c.Float("dropout"); k.fixed && !k.listed {
		m.Position = b.buffer(name, RolePosition, rows, h)
	} else {
		m.Position = b.param(name, RolePosition, rows, h)
		m.Position.Trainable = !k.fixed
	}
	b.stack(m, prefix, side, h, true, !k.before, m.embedDrop, b.activation("activation_function"))
	if k.embedNorm {
		m.embedNorm = b.norm(prefix+"layernorm_embedding", layerNormKind, h, true)
	}
	if k.before {
		m.final = b.norm(prefix+"layer_norm", layerNormKind, h, true)
	}
}

func buildBART(b *builder) {
	c, m := b.c, b.m
	b.need("vocab_size", "d_model", "encoder_layers", "decoder_layers", "max_position_embeddings")
	if c.Own("share_encoder_decoder_embeddings") == false {
		b.fail("%s: an encoder and a decoder with words of their own aren't counted", c.Type)
	}
	h, k, kind := c.Int("d_model"), bartKins[c.Type], b.headKind()
	if kind == headLM {
		b.bartDecoder(h, k)
		return
	}
	if kind != headNone {
		b.prefix = "model."
	}
	m.Hidden, m.WordWidth, m.Vocab, m.DirectLoss = h, h, c.Int("vocab_size"), true
	b.embedding("shared", m.Vocab, h)
	m.Encoder = &Model{Hidden: h, WordWidth: h, Embed: stackTable(b, "encoder.")}
	k.fill(b, m.Encoder, "encoder.", "encoder", h)
	m.Embed = stackTable(b, "decoder.")
	k.fill(b, m, "decoder.", "decoder", h)
	b.prefix = ""
	if kind != headSeq2Seq && kind != headDefault {
		otherHead(b, kind, h)
		return
	}
	if m.plusBias = !k.noBias; m.plusBias {
		m.WideBuffers += float64(m.Vocab)
	}
	b.wordHead(taskSeq2Seq, "lm_head", h)
}

// stackTable is what a stack looks words up in: the one that all share, or its own where nothing is tied.
func stackTable(b *builder, stack string) *parameter {
	if b.c.Tied() {
		return b.m.Embed
	}
	return b.param(stack+"embed_tokens.weight", RoleEmbedding, b.m.Vocab, b.m.WordWidth)
}

// bartDecoder is BartForCausalLM: without an encoder, and without the bias of the logits.
func (b *builder) bartDecoder(h int64, k bartKin) {
	c, m := b.c, b.m
	b.prefix = "model.decoder."
	m.Hidden, m.WordWidth, m.Vocab, m.DirectLoss = h, h, c.IntOr(k.words, c.Int("vocab_size")), true
	b.embedding("embed_tokens", m.Vocab, h)
	k.fill(b, m, "", "decoder", h)
	b.prefix = ""
	b.wordHead(TaskCausal, "lm_head", h)
}

func buildWhisper(b *builder) {
	c, m := b.c, b.m
	b.need("vocab_size", "d_model", "encoder_layers", "decoder_layers", "num_mel_bins", "max_source_positions",
		"max_target_positions")
	h, drop := c.Int("d_model"), c.Float("dropout")
	kind := b.headUnder("model.")
	m.Hidden, m.WordWidth, m.Vocab, m.DirectLoss = h, h, c.Int("vocab_size"), true
	act := b.activation("activation_function")
	enc := &Model{Hidden: h, embedDrop: drop, Patches: c.Int("max_source_positions")}
	enc.Sound = &Sound{frames: 2 * enc.Patches, bins: c.Int("num_mel_bins"), h: h}
	b.make(parts{to: []any{enc.Sound}, role: RoleEmbedding}, "w1=encoder.conv1.weight:h,bins,3 b1=encoder.conv1.bias:h "+
		"w2=encoder.conv2.weight:h,h,3 b2=encoder.conv2.bias:h")
	enc.Position = b.param("encoder.embed_positions.weight", RolePosition, enc.Patches, h)
	enc.Position.Trainable = false
	b.stack(enc, "encoder.", "encoder", h, false, false, drop, act)
	enc.final = b.norm("encoder.layer_norm", layerNormKind, h, true)
	b.embedding("decoder.embed_tokens", m.Vocab, h)
	m.Position = b.param("decoder.embed_positions.weight", RolePosition, c.Int("max_target_positions"), h)
	b.stack(m, "decoder.", "decoder", h, false, false, drop, act)
	m.final = b.norm("decoder.layer_norm", layerNormKind, h, true)
	m.embedDrop, m.Encoder = drop, enc
	b.prefix = ""
	switch kind {
	case headNone:
		m.Task = TaskBackbone
	case headSeq2Seq, headDefault:
		b.wordHead(taskSpeech, "proj_out", h)
	default:
		b.noHead()
	}
}

// Sound are whisper's two in front of the encoder.
type Sound struct {
	w1, b1, w2, b2  *parameter
	frames, bins, h int64
}

// DecodesAlone says whether a decoder could look at an encoder that isn't there.
func (m *Model) DecodesAlone() bool {
	return m.Encoder == nil && m.UNet == nil && len(m.Blocks) > 0 && m.Blocks[0].Cross != nil
}
