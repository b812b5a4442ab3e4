package budget

import "github.com/vramscope/vramscope/budget/modelfile"

// Hybrids: decoders some of whose layers have a mixer in the place of attention, or beside it.

// mambaSizes are a mamba-2 mixer's as Bamba and those after it call them.
func mambaSizes(c *modelfile.Config, h int64) mamba2Sizes {
	s := mamba2Sizes{h: h, inner: c.IntOr("mamba_d_ssm", c.Int("mamba_expand")*h), groups: c.Int("mamba_n_groups"),
		state: c.Int("mamba_d_state"), heads: c.Int("mamba_n_heads"), kernel: c.Int("mamba_d_conv"), at: "mamba.",
		bias: c.Bool("mamba_proj_bias"), outBias: c.Bool("mamba_proj_bias"), convBias: c.Bool("mamba_conv_bias")}
	if c.Type == "falcon_h1" {
		s.outBias, s.noNorm = c.Bool("projectors_bias"), !c.Bool("mamba_rms_norm")
	}
	return s
}

// layerIs says whether layer_types names the layer so, other where there is no such list.
func layerIs(c *modelfile.Config, i int64, other bool, names ...string) bool {
	l := c.List("layer_types")
	if len(l) == 0 {
		l = c.List("layers_block_type")
	}
	if i >= int64(len(l)) {
		return other
	}
	for _, n := range names {
		if l[i] == n {
			return true
		}
	}
	return false
}

func falconMixer(b *builder, _, h int64) mixer { return b.mamba2Mixer(mambaSizes(b.c, h)) }

// bambaMixer: attention is in the layers of a list.
func bambaMixer(b *builder, i, h int64) mixer {
	for _, at := range b.c.List("attn_layer_indices") {
		if modelfile.AsInt(at) == i {
			return nil
		}
	}
	return b.mamba2Mixer(mambaSizes(b.c, h))
}

func graniteMixer(b *builder, i, h int64) mixer {
	if layerIs(b.c, i, false, "attention", "full_attention") {
		return nil
	}
	return b.mamba2Mixer(mambaSizes(b.c, h))
}

// jambaMixer: one layer in several has attention; the others norm what the walk takes.
func jambaMixer(b *builder, i, h int64) mixer {
	c := b.c
	if i%max(c.Int("attn_layer_period"), 1) == c.Int("attn_layer_offset") {
		return nil
	}
	rank := c.Int("mamba_dt_rank")
	if rank == 0 {
		rank = (h + 15) / 16
	}
	mx := &mamba{h: h, inner: c.Int("mamba_expand") * h, state_: c.Int("mamba_d_state"), rank: rank,
		kernel: c.Int("mamba_d_conv")}
	b.under("mamba.", func() {
		b.mambaParts(mx, c.Bool("mamba_proj_bias"), c.Bool("mamba_conv_bias"))
		b.norm("dt_layernorm", rmsNormKind, rank, false)
		b.norm("b_layernorm", rmsNormKind, mx.state_, false)
		b.norm("c_layernorm", rmsNormKind, mx.state_, false)
	})
	return mx
}

func jambaExperts(b *builder, i int64) feedForward {
	c := b.c
	if c.Int("num_experts") <= 1 || i%max(c.Int("expert_layer_period"), 1) != c.Int("expert_layer_offset") {
		return nil
	}
	return b.experts("feed_forward.experts", "feed_forward.router", c.Int("num_experts"), c.Int("num_experts_per_tok"),
		c.Int("hidden_size"), c.Int("intermediate_size"))
}

// graniteHybrid: without experts there is only what every token takes.
func graniteHybrid(b *builder, i int64) feedForward {
	c := b.c
	if c.Int("num_local_experts") > 0 {
		return graniteShared(b, i)
	}
	h, n := c.Int("hidden_size"), c.Int("shared_intermediate_size")
	return &mlp{act: b.activation("hidden_act"), fused: true, up: b.linear("shared_mlp.input_linear", RoleMLP, h, 2*n, false),
		down: b.linear("shared_mlp.output_linear", RoleMLP, n, h, false)}
}

// graniteRope: the hybrids rotate only where their configuration says so.
func graniteRope(b *builder, d *decoder) {
	if b.c.Str("position_embedding_type") != "rope" {
		b.m.ropeDim, d.rope = 0, ropeNone
	}
}

// llama4Experts are given every token, in the layers of a list or every few.
func llama4Experts(b *builder, i int64) feedForward {
	c := b.c
	step := max(c.Int("interleave_moe_layer_step"), 1)
	routed := (i+1)%step == 0
	if l := c.List("moe_layers"); len(l) > 0 {
		routed = false
		for _, at := range l {
			routed = routed || modelfile.AsInt(at) == i
		}
	}
	if !routed {
		return nil
	}
	h, n, e := c.Int("hidden_size"), c.Int("intermediate_size"), c.Int("num_local_experts")
	x := &experts{count: e, topK: e, h: h, inner: n, act: actSilu}
	x.router = &linear{layer: layer{In: h, Out: e, Weight: b.param("feed_forward.router.weight", RoleRouter, e, h)}}
	x.gateUp = b.param("feed_forward.experts.gate_up_proj", RoleExpert, e, h, 2*n)
	x.down = b.param("feed_forward.experts.down_proj", RoleExpert, e, n, h)
	b.sharedExpert(x, "feed_forward.shared_expert.", n, false)
	return x
}

func llama4Window(c *modelfile.Config, i int64) int64 {
	if layerIs(c, i, (i+1)%max(c.IntOr("no_rope_layer_interval", 4), 1) != 0, "chunked_attention") {
		return c.Int("attention_chunk_size")
	}
	return 0
}

// shortConv is a gated convolution over a few positions (lfm2).
type shortConv struct {
	in, out        *linear
	conv, convBias *parameter
	h, kernel      int64
}

func (x *shortConv) linears() []*linear { return []*linear{x.in, x.out} }

func (x *shortConv) state(batch, width int64) int64 { return batch * x.h * x.kernel * width }

func (x *shortConv) forward(m *machine, in *value, _ shape) *value {
	p := m.apply(in, x.in)
	n := in.N
	parts := m.Split(p, n, n, n)
	m.Drop(p)
	y := m.Mul(parts[0], parts[2])
	y = m.Replace(y, m.convolution(y, x.conv, x.convBias, n, 0))
	y = m.Replace(y, m.Mul(parts[1], y))
	m.Drop(parts...)
	return m.Replace(y, m.apply(y, x.out))
}

func lfmMixer(b *builder, i, h int64) mixer {
	c := b.c
	full := true
	if l := c.List("full_attn_idxs"); len(l) > 0 && len(c.List("layer_types")) == 0 {
		full = false
		for _, at := range l {
			full = full || modelfile.AsInt(at) == i
		}
	}
	if layerIs(c, i, full, "full_attention") {
		return nil
	}
	x := &shortConv{h: h, kernel: c.Int("conv_L_cache")}
	b.under("conv.", func() {
		x.conv = b.param("conv.weight", RoleSSM, h, 1, x.kernel)
		if c.Bool("conv_bias") {
			x.convBias = b.param("conv.bias", RoleSSM, h)
		}
		x.in = b.linear("in_proj", RoleSSM, h, 3*h, c.Bool("conv_bias"))
		x.out = b.linear("out_proj", RoleSSM, h, h, c.Bool("conv_bias"))
	})
	return x
}

// lfmInner is two thirds of the width that the file gives, in whole blocks.
func lfmInner(c *modelfile.Config) int64 {
	n := c.IntOr("intermediate_size", c.Int("block_ff_dim"))
	if !c.Bool("block_auto_adjust_ff_dim") {
		return n
	}
	n = 2 * n / 3
	if f := c.Float("block_ffn_dim_multiplier"); f > 0 {
		n = int64(f * float64(n))
		by := max(c.Int("block_multiple_of"), 1)
		n = (n + by - 1) / by * by
	}
	return n
}
