package network

import (
	"cmp"
	"strings"

	"github.com/vramscope/vramscope/budget/modelfile"
)

// State-space and linear-attention families.

func buildMamba(b *builder) {
	c := b.c
	b.need("vocab_size", "hidden_size", "num_hidden_layers", "state_size", "conv_kernel")
	h := c.Int("hidden_size")
	di := int64(c.Float("expand") * float64(h))
	if c.Has("intermediate_size") {
		di = c.Int("intermediate_size")
	}
	rank := (h + 15) / 16
	if c.Int("time_step_rank") > 0 {
		rank = c.Int("time_step_rank")
	}
	b.ssmBody(h, c.Int("num_hidden_layers"), func(int64) *Block {
		mx := &Mamba{h: h, inner: di, state_: c.Int("state_size"), rank: rank, kernel: c.Int("conv_kernel")}
		n := b.norm("norm", rmsNormKind, h, false)
		b.under("mixer.", func() { b.mambaParts(mx, "use_bias", "use_conv_bias", "") })
		return &Block{Mixer: mx, attnIn: n}
	})
}

// mambaParts are the weights of a mixer that walks the sequence, with flags for its biases and more behind.
func (b *builder) mambaParts(mx *Mamba, bias, convBias, more string) {
	b.make(parts{to: []any{mx}, role: RoleSSM}, "a=A_log:inner,state_ skip=D:inner conv=conv1d.weight:inner,1,kernel "+
		"convBias=conv1d.bias:inner@"+convBias+" in=in_proj?"+bias+":h>2*inner x=x_proj:inner>rank+2*state_ "+
		"dt=dt_proj+:rank>inner out=out_proj?"+bias+":inner>h"+more)
}

// ssmBody is a state-space model around its layers.
func (b *builder) ssmBody(h, layers int64, layer func(i int64) *Block) {
	c, m := b.c, b.m
	m.Vocab = c.Int("vocab_size")
	if p := c.Int("pad_vocab_size_multiple"); p > 1 && m.Vocab < 1<<40 {
		m.Vocab = (m.Vocab + p - 1) / p * p
	}
	m.wideLogits = true
	prefix := "backbone."
	if c.Type == "nemotron_h" {
		prefix = "model."
	}
	b.body(prefix, "embeddings", "norm_f", ssmNorm(c), h, layers, func(i int64) *Block {
		bl := layer(i)
		bl.wideSums = c.Bool("residual_in_fp32")
		return bl
	})
}

// body is embeddings, layers, a last norm and a head.
func (b *builder) body(prefix, embed, final string, of normKind, h, layers int64, layer func(i int64) *Block) {
	m := b.m
	m.Hidden, m.WordWidth, m.Vocab = h, h, cmp.Or(m.Vocab, b.c.Int("vocab_size"))
	kind := b.headUnder(prefix)
	b.embedding(embed, m.Vocab, h)
	b.layers("layers.", layers, func(i int64) { m.Blocks = append(m.Blocks, layer(i)) })
	m.final, b.prefix = b.norm(final, of, h, false), ""
	row := llamaLike
	b.decoderHead(&row, kind)
}

// ssmNorm is the kind of the blocks' norms and the last.
func ssmNorm(c *modelfile.Config) normKind {
	if c.Type == "nemotron_h" {
		return rmsWideKind
	}
	return rmsNormKind
}

// mamba2Mixer is one of given sizes, with flags for its biases and its norm.
func (b *builder) mamba2Mixer(at string, mx Mamba, bias, outBias, convBias, norm string) *Mamba {
	mx.Second, mx.chunk = true, b.c.IntOr("chunk_size", b.c.IntOr("mamba_chunk_size", 256))
	b.under(at, func() {
		channels := mx.inner + 2*mx.groups*mx.state_
		b.make(parts{to: []any{&mx}, role: RoleSSM, norm: rmsNormKind, sizes: sizes{"channels": channels}},
			"dtBias=dt_bias:heads a=A_log:heads skip=D:heads conv=conv1d.weight:channels,1,kernel convBias=conv1d.bias:channels@"+
				convBias+" in=in_proj?"+bias+":h>inner+channels+heads norm=norm:inner@"+norm+" out=out_proj?"+outBias+":inner>h")
	})
	return &mx
}

func buildMamba2(b *builder) {
	c := b.c
	if c.Has("pad_vocab_size_multiple") { // the original project's configuration, with its defaults
		for k, v := range map[string]any{"n_groups": 1.0, "tie_word_embeddings": true, "state_size": 128.0} {
			if !c.Has(k) {
				c = c.With(k, v)
			}
		}
		if !c.Has("num_heads") {
			c = c.With("num_heads", float64(c.IntOr("expand", 2)*c.Int("hidden_size")/max(c.IntOr("head_dim", 64), 1)))
		}
		b.c = c
	}
	b.need("vocab_size", "hidden_size", "num_hidden_layers", "state_size", "conv_kernel", "n_groups", "num_heads",
		"head_dim")
	h := c.Int("hidden_size")
	s := Mamba{h: h, inner: int64(c.Float("expand") * float64(h)), groups: c.Int("n_groups"), state_: c.Int("state_size"),
		heads: c.Int("num_heads"), kernel: c.Int("conv_kernel")}
	if s.heads*c.Int("head_dim") != s.inner {
		b.fail("%s: %d heads of %d do not make an inner size of %d", c.Type, s.heads, c.Int("head_dim"), s.inner)
	}
	b.ssmBody(h, c.Int("num_hidden_layers"), func(int64) *Block {
		n := b.norm("norm", rmsNormKind, h, false)
		return &Block{Mixer: b.mamba2Mixer("mixer.", s, "use_bias", "use_bias", "use_conv_bias", "yes"), attnIn: n}
	})
}

// nemotronLayers reads the pattern of a hybrid: one letter a layer, of which
// Transformers 5 made words. Of a kind that isn't known it fails.
func nemotronLayers(b *builder) string {
	c := b.c
	if p := c.Str("hybrid_override_pattern"); p != "" {
		return p
	}
	list := c.List("layers_block_type")
	if len(list) == 0 {
		list = c.List("layer_types")
	}
	letters := map[string]byte{"mamba": 'M', "linear_attention": 'M', "attention": '*', "full_attention": '*', "mlp": '-',
		"moe": 'E'}
	var s strings.Builder
	for _, l := range list {
		w, _ := l.(string)
		if letters[w] == 0 {
			b.fail("nemotron_h: layer kind %q is not known", w)
		}
		s.WriteByte(letters[w])
	}
	return s.String()
}

func buildNemotron(b *builder) {
	c := b.c
	b.need("vocab_size", "hidden_size", "mamba_num_heads", "mamba_head_dim", "ssm_state_size", "n_groups",
		"num_attention_heads", "num_key_value_heads", "head_dim")
	pattern := nemotronLayers(b)
	if pattern == "" {
		b.fail("nemotron_h: the configuration has neither hybrid_override_pattern nor layers_block_type")
	}
	h, a, k, d := c.Int("hidden_size"), c.Int("num_attention_heads"), c.Int("num_key_value_heads"), c.Int("head_dim")
	b.heads(h, a, k)
	s := Mamba{h: h, inner: c.Int("mamba_num_heads") * c.Int("mamba_head_dim"), groups: c.Int("n_groups"),
		state_: c.Int("ssm_state_size"), heads: c.Int("mamba_num_heads"), kernel: c.Int("conv_kernel")}
	bias := "use_bias"
	if c.Bool("mamba_proj_bias") {
		bias = "mamba_proj_bias"
	}
	b.ssmBody(h, int64(len(pattern)), func(i int64) *Block {
		n := b.norm("norm", ssmNorm(c), h, false)
		switch pattern[i] {
		case 'M':
			return &Block{Mixer: b.mamba2Mixer("mixer.", s, bias, bias, "use_conv_bias", "yes"), attnIn: n}
		case '*':
			at := &Attention{Heads: a, KV: k, Width: d, dv: d}
			row := llamaLike
			row.QkvBias, row.OBias = "attention_bias", "attention_bias"
			b.under("mixer.", func() { b.projections(&row, at, h) })
			return &Block{Attention: at, attnIn: n}
		case '-':
			bl := &Block{FF: &mlp{act: actReluSquared}, mlpIn: n}
			b.fill(bl, nil, h, c.Int("intermediate_size"), "up=mixer.up_proj?mlp_bias down=mixer.down_proj?mlp_bias")
			return bl
		case 'E':
			return &Block{FF: b.nemotronExperts(h), mlpIn: n}
		}
		b.fail("nemotron_h: layer kind %q in the pattern is not known", pattern[i])
		return nil
	})
}

func (b *builder) nemotronExperts(h int64) *Experts {
	c := b.c
	x := &Experts{count: c.Int("n_routed_experts"), topK: c.Int("num_experts_per_tok"), h: h,
		inner: c.Int("moe_intermediate_size"), act: actReluSquared}
	if c.Int("moe_latent_size") > 0 {
		b.fail("nemotron_h: experts of a latent size (moe_latent_size) aren't known")
	}
	f := &mlp{act: actReluSquared}
	x.shared = f
	b.under("mixer.", func() {
		x.router = b.linear("gate", RoleRouter, h, x.count, false)
		b.buffer("gate.e_score_correction_bias", RoleRouter, x.count).Listed = true
		b.make(parts{to: []any{x}, role: RoleExpert}, "gateUp=experts.up_proj:count,inner,h down=experts.down_proj:count,h,inner")
		b.make(parts{to: []any{f}, role: RoleShared, sizes: sizes{"h": h, "inner": c.Int("moe_shared_expert_intermediate_size") *
			max(c.Int("n_shared_experts"), 1)}}, "up=shared_experts.up_proj down=shared_experts.down_proj")
	})
	return x
}

// buffer is a weight of the checkpoint that no gradient reaches.
func (b *builder) buffer(name string, role Role, shape ...int64) *parameter {
	p := b.param(name, role, shape...)
	p.Trainable, p.Buffer = false, true
	return p
}

// gatedQuarter: half of what queries are projected to gates what comes out, and a quarter of a head is rotated (qwen3_next).
func gatedQuarter(b *builder, _ *decoder, _ int64, at *Attention, inner int64) int64 {
	b.m.RotaryWidth = at.Width / 4
	at.gated, at.rope = true, rotary{kind: ropePartial, dim: at.Width / 4, of: at.Width}
	return inner
}

// deltaNet is a gated delta network, in all layers but every few.
func deltaNet(b *builder, i, h int64) Mixer {
	c := b.c
	b.need("num_key_value_heads", "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim",
		"linear_value_head_dim", "linear_conv_kernel_dim")
	every := c.IntOr("full_attention_interval", 4)
	if layerIs(c, i, every > 0 && (i+1)%every == 0, "full_attention") {
		return nil
	}
	nv, dk := c.Int("linear_num_value_heads"), c.Int("linear_key_head_dim")
	x := &Mamba{h: h, inner: nv * c.Int("linear_value_head_dim"), keys: c.Int("linear_num_key_heads") * dk, heads: nv, state_: dk,
		kernel: c.Int("linear_conv_kernel_dim"), Delta: true}
	words := "in=in_proj_qkv:h>2*keys+inner z=in_proj_z:h>inner x=in_proj_b:h>heads dt=in_proj_a:h>heads"
	if c.Type == "qwen3_next" {
		words = "in=in_proj_qkvz:h>2*keys+2*inner x=in_proj_ba:h>2*heads"
	}
	b.under("linear_attn.", func() {
		b.make(parts{to: []any{x}, role: RoleSSM, norm: rmsNormKind}, "dtBias=dt_bias:heads a=A_log:heads "+
			"conv=conv1d.weight:2*keys+inner,1,kernel "+words+" norm=norm:linear_value_head_dim out=out_proj:inner>h")
	})
	return x
}
