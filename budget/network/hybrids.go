package network

import (
	"slices"
	"strconv"

	"github.com/vramscope/vramscope/budget/modelfile"
	"github.com/vramscope/vramscope/internal/words"
)

// Hybrids: decoders some of whose layers have a mixer in the place of attention, or beside it.

// mambaMixer is a mamba-2 mixer as Bamba and those after it call its sizes.
func mambaMixer(b *builder, h int64) *Mamba {
	c, out, norm := b.c, "mamba_proj_bias", "yes"
	if c.Type == "falcon_h1" {
		out, norm = "projectors_bias", "mamba_rms_norm"
	}
	s := Mamba{h: h, inner: c.IntOr("mamba_d_ssm", c.Int("mamba_expand")*h), groups: c.Int("mamba_n_groups"),
		state_: c.Int("mamba_d_state"), heads: c.Int("mamba_n_heads"), kernel: c.Int("mamba_d_conv")}
	return b.mamba2Mixer("mamba.", s, "mamba_proj_bias", out, "mamba_conv_bias", norm)
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
	return slices.ContainsFunc(names, func(n string) bool { return l[i] == n })
}

// listed says whether a list of layers has this one.
func listed(c *modelfile.Config, field string, i int64) bool {
	return slices.ContainsFunc(c.List(field), func(at any) bool { return modelfile.AsInt(at) == i })
}

// ofLayer is a field's number, or a layer's own where the field is a list of them.
func ofLayer(c *modelfile.Config, field string, i int64) int64 {
	if l := c.List(field); i < int64(len(l)) {
		return modelfile.AsInt(l[i])
	}
	return c.Int(field)
}

func falconMixer(b *builder, _, h int64) Mixer { return mambaMixer(b, h) }

// hybridMixer: attention is in the layers of a list.
func hybridMixer(b *builder, i, h int64) Mixer {
	if listed(b.c, "attn_layer_indices", i) || layerIs(b.c, i, false, "attention", "full_attention") {
		return nil
	}
	return mambaMixer(b, h)
}

// jambaMixer: one layer in several has attention; the others norm what the walk takes.
func jambaMixer(b *builder, i, h int64) Mixer {
	c := b.c
	if i%max(c.Int("attn_layer_period"), 1) == c.Int("attn_layer_offset") {
		return nil
	}
	rank := c.Int("mamba_dt_rank")
	if rank == 0 {
		rank = (h + 15) / 16
	}
	mx := &Mamba{h: h, inner: c.Int("mamba_expand") * h, state_: c.Int("mamba_d_state"), rank: rank,
		kernel: c.Int("mamba_d_conv")}
	b.under("mamba.", func() {
		b.mambaParts(mx, "mamba_proj_bias", "mamba_conv_bias", " -n=dt_layernorm:rank "+
			"-n=b_layernorm:state_ -n=c_layernorm:state_")
	})
	return mx
}

func jambaExperts(b *builder, i int64) FeedForward {
	c := b.c
	if c.Int("num_experts") <= 1 || i%max(c.Int("expert_layer_period"), 1) != c.Int("expert_layer_offset") {
		return nil
	}
	return b.experts("feed_forward.experts", "feed_forward.router", c.Int("num_experts"), c.Int("num_experts_per_tok"),
		c.Int("hidden_size"), c.Int("intermediate_size"))
}

// graniteHybrid: without experts there is only what every token takes.
func graniteHybrid(b *builder, i int64) FeedForward {
	c := b.c
	if c.Int("num_local_experts") > 0 {
		return graniteShared(b, i)
	}
	return graniteMLP(b, RoleMLP)
}

// graniteRope: the hybrids rotate only where their configuration says so.
func graniteRope(b *builder, d *decoder) {
	if b.c.Str("position_embedding_type") != "rope" {
		b.m.RotaryWidth, d.Rope = 0, ropeNone
	}
}

// llama4Experts are given every token, in the layers of a list or every few.
func llama4Experts(b *builder, i int64) FeedForward {
	c := b.c
	step := max(c.Int("interleave_moe_layer_step"), 1)
	if l := c.List("moe_layers"); len(l) > 0 && !listed(c, "moe_layers", i) || len(l) == 0 && (i+1)%step != 0 {
		return nil
	}
	h, n, e := c.Int("hidden_size"), c.Int("intermediate_size"), c.Int("num_local_experts")
	x := &Experts{count: e, topK: e, h: h, inner: n, act: actSilu}
	x.router = b.linear("feed_forward.router", RoleRouter, h, e, false)
	b.make(parts{to: []any{x}, role: RoleExpert}, "gateUp=feed_forward.experts.gate_up_proj:count,h,2*inner "+
		"down=feed_forward.experts.down_proj:count,inner,h")
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
	in, out        *Linear
	conv, convBias *parameter
	h, kernel      int64
}

func (x *shortConv) Linears() []*Linear { return []*Linear{x.in, x.out} }

func (x *shortConv) State(batch, width int64) int64 { return batch * x.h * x.kernel * width }

func (x *shortConv) forward(m *Machine, in *value, _ shape) *value {
	p := m.apply(in, x.in)
	n := in.N
	parts := m.Split(p, n, n, n)
	m.Drop(p)
	y := m.of(parts[0], times{parts[2]}, convolves{x.conv, x.convBias, n, 0})
	y = m.Replace(y, m.Mul(parts[1], y))
	m.Drop(parts...)
	return m.into(y, x.out)
}

func lfmMixer(b *builder, i, h int64) Mixer {
	c := b.c
	full := len(c.List("full_attn_idxs")) == 0 || len(c.List("layer_types")) > 0 || listed(c, "full_attn_idxs", i)
	if layerIs(c, i, full, "full_attention") {
		return nil
	}
	x := &shortConv{h: h, kernel: c.Int("conv_L_cache")}
	b.under("conv.", func() {
		b.make(parts{to: []any{x}, role: RoleSSM}, "conv=conv.weight:h,1,kernel convBias=conv.bias:h@conv_bias "+
			"in=in_proj?conv_bias:h>3*h out=out_proj?conv_bias:h>h")
	})
	return x
}

// lfmInner is two thirds of the width that the file gives, in whole blocks.
func lfmInner(c *modelfile.Config) int64 {
	n := c.IntOr("block_ff_dim", c.Int("intermediate_size"))
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

// zamba2 is a hybrid layer: a transformer that other layers have as well, and a mixer behind it.
type zamba2 struct {
	b      *Block
	linear *Linear // of what the transformer makes
	mixIn  *norm
}

// buildZamba2 is a decoder of mixers, before some of which stands one of a few transformers.
func buildZamba2(b *builder) {
	c, m := b.c, b.m
	b.need("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "n_mamba_heads", "mamba_d_state",
		"num_mem_blocks", "mamba_ngroups", "adapter_rank")
	h, a := c.Int("hidden_size"), c.Int("num_attention_heads")
	k := c.IntOr("num_key_value_heads", a)
	b.heads(h, a, k)
	m.keepsOrigin = true
	if c.Bool("use_mem_rope") {
		m.RotaryWidth = 2 * h / a
	}
	s := Mamba{h: h, inner: c.Int("mamba_expand") * h, groups: c.Int("mamba_ngroups"), state_: c.Int("mamba_d_state"),
		heads: c.Int("n_mamba_heads"), kernel: c.Int("mamba_d_conv")}
	var shared []*Block
	var hybrids int64
	all := layerCount(c, "hybrid")
	b.body("model.", "embed_tokens", "final_layernorm", rmsNormKind, h, c.Int("num_hidden_layers"), func(i int64) *Block {
		bl := &Block{}
		if layerIs(c, i, false, "hybrid") {
			x := &zamba2{b: bl}
			if int64(len(shared)) < c.Int("num_mem_blocks") {
				b.under("shared_transformer.", func() { shared = append(shared, zambaTransformer(b, hybrids, all, h, a, k)) })
			}
			x.take(shared[hybrids%c.Int("num_mem_blocks")], hybrids/c.Int("num_mem_blocks"))
			x.linear = b.linear("linear", RoleMLP, h, h, false)
			bl.more, bl.own = []*Linear{x.linear}, x.forward
			hybrids++
			b.under("mamba_decoder.", func() {
				bl.Mixer, x.mixIn = zambaMixer(b, s), b.norm("input_layernorm", rmsNormKind, h, false)
			})
		} else {
			bl.Mixer, bl.attnIn = zambaMixer(b, s), b.norm("input_layernorm", rmsNormKind, h, false)
		}
		return bl
	})
}

// layerCount is how many layers the file names so.
func layerCount(c *modelfile.Config, name string) (n int64) {
	for i := range min(c.Int("num_hidden_layers"), MaxLayers) {
		if layerIs(c, i, false, name) {
			n++
		}
	}
	return n
}

// zambaMixer is a mixer with a norm over each group of its channels.
func zambaMixer(b *builder, s Mamba) *Mamba {
	x := b.mamba2Mixer("mamba.", s, "add_bias_linear", "add_bias_linear", "yes", "yes")
	x.norm.size = s.inner / s.groups
	return x
}

// zambaTransformer is one that several layers have, with what each of them adds to its products.
func zambaTransformer(b *builder, first, all, h, a, k int64) *Block {
	c := b.c
	d, inner, rank := 2*h/a, c.IntOr("intermediate_size", 4*h), c.Int("adapter_rank")
	at := &Attention{Heads: a, KV: k, Width: d, dv: d, dropout: c.Float("attention_dropout")}
	if c.Bool("use_mem_rope") {
		at.rope = rotary{kind: ropeFull, dim: d, of: d}
	}
	f := &mlp{act: b.activation("hidden_act"), fused: true}
	pairs := func(name string, in, out int64) (added [][2]*Linear) {
		for i := first; i < all; i += c.Int("num_mem_blocks") {
			b.under(name+"."+strconv.FormatInt(i, 10)+".", func() {
				added = append(added, [2]*Linear{b.linear("0", RoleMLP, in, rank, false),
					b.linear("1", RoleMLP, rank, out, false)})
			})
		}
		return added
	}
	b.under("self_attn.", func() {
		b.fill(&Block{}, at, 2*h, 0, "q=q_proj k=k_proj v=v_proj")
		at.o = b.linear("o_proj", RoleAttention, a*d, h, false)
		if c.Bool("use_shared_attention_adapter") {
			at.q.pairs = pairs("linear_q_adapter_list", 2*h, 2*h)
			at.k.pairs, at.v.pairs = pairs("linear_k_adapter_list", 2*h, 2*h), pairs("linear_v_adapter_list", 2*h, 2*h)
		}
	})
	b.under("feed_forward.", func() {
		b.fill(&Block{FF: f}, nil, h, inner, "gateUp=gate_up_proj?add_bias_linear "+
			"down=down_proj?add_bias_linear")
		f.up.pairs = pairs("gate_up_proj_adapter_list", h, 2*inner)
	})
	return &Block{Attention: at, FF: f, attnIn: b.norm("input_layernorm", rmsNormKind, 2*h, false),
		mlpIn: b.norm("pre_ff_layernorm", rmsNormKind, h, false)}
}

// take is the transformer as the layer that has it for the n-th time uses it.
func (x *zamba2) take(from *Block, n int64) {
	one := func(l *Linear) *Linear {
		own := *l
		if own.pairs != nil {
			own.pairs = own.pairs[n : n+1]
		}
		return &own
	}
	at, f := *from.Attention, *from.FF.(*mlp)
	at.q, at.k, at.v, at.o = one(at.q), one(at.k), one(at.v), one(at.o)
	f.up, f.down = one(f.up), one(f.down)
	x.b.Attention, x.b.FF, x.b.attnIn, x.b.mlpIn = &at, &f, from.attnIn, from.mlpIn
}

func (x *zamba2) forward(m *Machine, in *value, c context) *value {
	b := x.b
	y := m.into(m.Cat(in, c.beside.origin), b.attnIn)
	y = m.into(m.Replace(y, b.Attention.forward(m, y, y, c.self)), b.mlpIn, b.FF, x.linear)
	y = m.into(m.Replace(y, m.Add(in, y)), x.mixIn)
	if m.Pass.Inference && m.Modes.Cache == "dynamic" {
		m.Alloc(b.Mixer.State(c.self.batch, m.Width), words.KVCache)
	}
	y = m.Replace(y, b.Mixer.forward(m, y, c.self))
	return m.Replace(y, m.Add(in, y))
}
