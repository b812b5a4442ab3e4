package network

import (
	"slices"

	"github.com/vramscope/vramscope/budget/modelfile"
	"github.com/vramscope/vramscope/internal/words"
)

// Waves is the front of an encoder of raw sound: strided convolutions, a projection to the stream's width, and positions made
// by one more convolution over the stream, whose weight is stored as a direction and lengths.
type Waves struct {
	convs          []waveConv
	norm           *norm // in front of the projection, nil without
	project        *Linear
	drop           float64
	lengths, ways  *parameter
	bias           *parameter
	kernel, groups int64
	act            activation
}

type waveConv struct {
	weight, bias   *parameter
	norm           *norm
	grouped        bool // the norm is over each channel, not over them
	kernel, stride int64
	channels       int64
}

// Frames is how many positions so many samples become, 0 for too few.
func (w *Waves) Frames(samples int64) int64 {
	for _, c := range w.convs {
		if samples < c.kernel {
			return 0
		}
		samples = (samples-c.kernel)/c.stride + 1
	}
	return samples
}

// buildWaves is wav2vec2 and its kin.
func buildWaves(b *builder) {
	c, m := b.c, b.m
	b.need("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "num_conv_pos_embeddings",
		"num_conv_pos_embedding_groups", "vocab_size")
	if slices.ContainsFunc([]string{"add_adapter", "conv_pos_batch_norm", "use_weighted_layer_sum", "adapter_attn_dim"}, c.Bool) {
		b.fail("%s with add_adapter, adapter_attn_dim, conv_pos_batch_norm or use_weighted_layer_sum isn't known", c.Type)
	}
	h, a, kind := c.Int("hidden_size"), c.Int("num_attention_heads"), b.headKind()
	b.heads(h, a, a)
	w := &Waves{act: b.activation("feat_extract_activation"), drop: c.Float("feat_proj_dropout"),
		kernel: c.Int("num_conv_pos_embeddings"), groups: c.Int("num_conv_pos_embedding_groups")}
	m.Hidden, m.Waves, m.Vocab, m.DirectLoss = h, w, c.Int("vocab_size"), true
	if kind != headNone {
		b.prefix = c.Type + "."
	}
	if c.Float("mask_time_prob") > 0 || c.Float("mask_feature_prob") > 0 {
		b.param("masked_spec_embed", RoleEmbedding, h)
	}
	last := b.waveConvs(w)
	if h%a != 0 || w.groups <= 0 || h%w.groups != 0 {
		b.fail("%s: a hidden size of %d cannot be divided into %d heads or %d groups", c.Type, h, a, w.groups)
	}
	if !c.Has("feat_proj_layer_norm") || c.Bool("feat_proj_layer_norm") {
		w.norm = b.norm("feature_projection.layer_norm", layerNormKind, last, true)
	}
	w.project = b.linear("feature_projection.projection", RoleEmbedding, last, h, true)
	b.under("encoder.pos_conv_embed.conv.", func() {
		b.make(parts{to: []any{w}, role: RolePosition}, "bias=bias:hidden_size "+
			"lengths=parametrizations.weight.original0:1,1,kernel "+
			"ways=parametrizations.weight.original1:hidden_size,hidden_size/groups,kernel")
	})
	first := b.norm("encoder.layer_norm", layerNormKind, h, true)
	stable := c.Bool("do_stable_layer_norm")
	if m.embedDrop = c.Float("hidden_dropout"); stable {
		m.final = first
	} else {
		m.embedNorm = first
	}
	b.layers("encoder.layers.", c.Int("num_hidden_layers"), func(int64) {
		m.Blocks = append(m.Blocks, b.waveLayer(h, a, stable))
	})
	b.prefix = ""
	waveHead(b, kind, h)
}

func waveHead(b *builder, kind headKind, h int64) {
	c, m := b.c, b.m
	switch kind {
	case headNone:
		m.Task = TaskBackbone
	case headDefault, headToken:
		m.finalDrop = c.Float("final_dropout")
		b.classifier(TaskTokens, "lm_head", h, m.Vocab, true)
	case headSequence:
		n := c.IntOr("classifier_proj_size", 256)
		m.headParts = []any{b.linear("projector", RoleHead, h, n, true)}
		b.classifier(TaskClassify, "classifier", n, c.Labels(), true)
	default:
		b.noHead()
	}
}

// waveConvs reads the convolutions and says how many channels the last has.
func (b *builder) waveConvs(w *Waves) (channels int64) {
	c := b.c
	dims, kernels, strides := c.List("conv_dim"), c.List("conv_kernel"), c.List("conv_stride")
	if len(dims) == 0 || len(dims) > 64 || len(kernels) != len(dims) || len(strides) != len(dims) {
		b.fail("%s: conv_dim, conv_kernel and conv_stride have %d, %d and %d entries", c.Type, len(dims), len(kernels),
			len(strides))
	}
	channels = 1
	b.layers("feature_extractor.conv_layers.", int64(len(dims)), func(i int64) {
		n, k, s := modelfile.AsInt(dims[i]), modelfile.AsInt(kernels[i]), modelfile.AsInt(strides[i])
		if s <= 0 {
			b.fail("%s: a conv_stride of %d", c.Type, s)
		}
		v := waveConv{weight: b.param("conv.weight", RoleEmbedding, n, channels, k), kernel: k, stride: s, channels: n}
		if c.Bool("conv_bias") {
			v.bias = b.param("conv.bias", RoleEmbedding, n)
		}
		if v.grouped = c.Str("feat_extract_norm") != "layer"; !v.grouped || i == 0 {
			v.norm = b.norm("layer_norm", layerNormKind, n, true)
		}
		w.convs, channels = append(w.convs, v), n
	})
	return channels
}

func (b *builder) waveLayer(h, a int64, stable bool) *Block {
	c := b.c
	drop := c.Float("hidden_dropout")
	bl := &Block{Attention: b.looks(h, a, c.Float("attention_dropout"), drop), postNorm: !stable,
		FF: &mlp{act: b.activation("hidden_act"), inner: c.Float("activation_dropout"), drop: drop}}
	b.fill(bl, nil, h, c.Int("intermediate_size"), "q=attention.q_proj+ k=attention.k_proj+ "+
		"v=attention.v_proj+ o=attention.out_proj+ attnIn=layer_norm+ up=feed_forward.intermediate_dense+ "+
		"down=feed_forward.output_dense+ mlpIn=final_layer_norm+")
	return bl
}

// sounded is what the front makes of the samples, and the positions, whose name the encoder keeps.
func (r *Step) sounded(mod *Model, b Batch) (*value, []*value) {
	m, w := r.M, mod.Waves
	n := r.M.Modes.Sequence
	x := &value{Mem: m.Keep(b.Pixels), N: r.M.Pass.Batch * n, Width: m.Wide}
	for i, c := range w.convs {
		n = (n-c.kernel)/c.stride + 1
		if c.norm != nil && !c.grouped && i > 0 { // channels come last, which a convolution copies
			m.Pulse(x.N*m.Narrow(x.Width), words.Temporary)
		}
		x = m.into(x, convolves{c.weight, c.bias, r.M.Pass.Batch * n * c.channels, 0})
		if c.norm != nil {
			if !c.grouped {
				m.Pulse(x.Bytes(), words.Temporary)
			}
			x = m.Replace(x, c.norm.layer(m, x))
		}
		x = m.Replace(x, m.activate(x, w.act))
	}
	if w.norm != nil {
		m.Pulse(x.Bytes(), words.Temporary)
		x = m.Replace(x, w.norm.forward(m, x))
	}
	x = m.into(x, w.project, w.drop)
	p := m.positionsOf(x, w)
	return m.into(x, plus{p}, mod.embedNorm, mod.embedDrop), []*value{p}
}

// positionsOf is the convolution over the stream, with the weight that lengths and direction make.
func (m *Machine) positionsOf(x *value, w *Waves) *value {
	weight := m.Mul(w.ways.Val, w.lengths.Val)
	k := &parameter{Tensor: w.ways.Tensor, Trainable: w.ways.Trainable, Val: weight}
	m.Pulse(x.Bytes(), words.Temporary)
	y := m.convolution(x, k, w.bias, x.N, 0)
	m.Drop(weight)
	return m.into(y, w.act)
}
