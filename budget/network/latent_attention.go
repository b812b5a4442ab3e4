package network

import (
	"github.com/vramscope/vramscope/budget/modelfile"
	"github.com/vramscope/vramscope/internal/words"
)

// Multi-head latent attention: keys and values pass through a narrow latent.
type latent struct {
	qa, qb, kva, kvb *Linear
	qaNorm, kvaNorm  *norm
	rank             int64 // of the latent
	nope, rope       int64
	unturned         bool // nothing is rotated, and queries stay as they are (kimi_linear)
}

// latentHeads makes q, k and v. The cache keeps the latent and the one rotated key, of which keys are copied together.
func (a *Attention) latentHeads(m *Machine, x *value, t int64) (q, k, v *value) {
	l := a.latent
	if l.qa != nil {
		c := m.apply(x, l.qa)
		n := l.qaNorm.forward(m, c)
		q = m.apply(n, l.qb)
		m.Drop(c, n)
	} else {
		q = m.apply(x, a.q)
	}
	c := m.apply(x, l.kva)
	cs := m.Split(c, t*l.rank, t*l.rope)
	m.Drop(c)
	n := l.kvaNorm.forward(m, cs[0])
	kr := m.Again(cs[1])
	if !l.unturned {
		qs := m.Split(q, t*a.Heads*l.nope, t*a.Heads*l.rope)
		rot := rotary{kind: ropeFull, dim: l.rope, of: l.rope}
		qr := rot.forward(m, qs[1])
		kr = m.Replace(kr, rot.forward(m, cs[1]))
		q = m.Replace(q, m.Cat(qs[0], qr))
		m.Drop(qr)
		m.Drop(qs...)
	}
	m.Drop(cs...)
	n, kr = a.toCache(m, n, kr)
	kv := m.apply(n, l.kvb)
	vs := m.Split(kv, t*a.Heads*l.nope, t*a.Heads*a.dv)
	m.Drop(kv, n)
	k = m.Cat(vs[0], kr)
	if want := t * a.Heads * a.Width; k.N != want { // the rotated key is copied to every head
		m.Release(k.Mem)
		k.N = want
		k.Mem = m.Alloc(k.Bytes(), words.Temporary)
	}
	m.Drop(vs[0], kr)
	return q, k, vs[1]
}

// latentSetup reads what families with latents call otherwise, or don't read.
func latentSetup(b *builder, _ *decoder) {
	b.need("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim")
	if unread := unreadFlags[b.c.Type]; unread != "" {
		b.c = b.c.With(unread, false)
	}
	if b.c.Int("v_head_dim") == 0 { // minicpm3
		b.c = b.c.With("v_head_dim", b.c.Int("hidden_size")/max(b.c.Int("num_attention_heads"), 1))
	}
}

// unreadFlags are fields that a family's files may have set, and its code doesn't look at.
var unreadFlags = map[string]string{"kimi_linear": "tie_word_embeddings", "deepseek_v32": "mlp_bias", "glm_moe_dsa": "mlp_bias"}

// latentParts are attention's weights.
func latentParts(b *builder, _ *decoder, at *Attention, h int64) {
	c := b.c
	la := &latent{rank: c.Int("kv_lora_rank"), nope: c.Int("qk_nope_head_dim"), rope: c.Int("qk_rope_head_dim"),
		unturned: c.Type == "kimi_linear"}
	*at = Attention{Heads: at.Heads, KV: at.Heads, Width: la.nope + la.rope, dv: c.Int("v_head_dim"), latent: la}
	words := "q=q_proj:h>Heads*Width "
	if c.Int("q_lora_rank") > 0 {
		words = "qa=q_a_proj?attention_bias:h>q_lora_rank qaNorm=q_a_layernorm:q_lora_rank qb=q_b_proj:q_lora_rank>Heads*Width "
	}
	words += "kva=kv_a_proj_with_mqa?attention_bias:h>rank+rope kvaNorm=kv_a_layernorm:rank kvb=kv_b_proj:rank>Heads*(nope+dv) " +
		"o=o_proj?attention_bias:Heads*dv>h"
	if c.Int("index_n_heads") > 0 { // picks the tokens that are seen, without a gradient
		words += " -=indexer.wq_b:q_lora_rank>index_n_heads*index_head_dim -=indexer.wk:h>index_head_dim " +
			"-n=indexer.k_norm+:index_head_dim -=indexer.weights_proj:h>index_n_heads"
	}
	b.make(parts{to: []any{la, at}, role: RoleAttention, norm: rmsNormKind, sizes: sizes{"h": h}}, words)
	if la.qa != nil {
		at.q = la.qa
	}
}

// latentExperts are of layers that aren't dense.
func latentExperts(b *builder, i int64) FeedForward {
	c := b.c
	if routedExperts(c) == 0 || dense(c, i) || i%max(c.IntOr("moe_layer_freq", 1), 1) != 0 {
		return nil
	}
	corrected := c.Str("topk_method") == "noaux_tc" || c.Type != "deepseek_v2" && c.Type != "mistral4" && !c.Has("topk_method")
	return b.deepSeekExperts(max(c.Int("num_experts_per_tok"), 1), corrected)
}

// dense says whether a layer has no experts: as the file says of it, or as one of the first.
func dense(c *modelfile.Config, i int64) bool {
	if l := c.List("mlp_layer_types"); i < int64(len(l)) {
		return l[i] == "dense"
	}
	return i < c.IntOr("first_k_dense_replace", firstDense[c.Type])
}

// routedExperts is how many there are, by any of the names that files have for them.
func routedExperts(c *modelfile.Config) int64 {
	return c.IntOr("n_routed_experts", c.IntOr("num_local_experts", c.Int("num_experts")))
}

// firstDense are how many layers are dense where the file doesn't say.
var firstDense = map[string]int64{"kimi_linear": 1, "hy_v3": 1}

// deepSeekExperts are routed in float32, perhaps by corrected scores.
func (b *builder) deepSeekExperts(topK int64, corrected bool) *Experts {
	c := b.c
	x := b.experts("mlp.experts", "mlp.gate", routedExperts(c), topK, c.Int("hidden_size"), c.Int("moe_intermediate_size"))
	x.wideRouter = true
	if corrected {
		b.buffer("mlp.gate.e_score_correction_bias", RoleRouter, x.count)
	}
	n := timesWithin(c.IntOr("n_shared_experts", c.Int("num_shared_experts")), c.Int("moe_intermediate_size"))
	if n == 0 && c.Type == "hy_v3" { // none is one as wide as a dense layer
		n = c.Int("intermediate_size")
	}
	if n > 0 {
		b.sharedExpert(x, "mlp.shared_experts.", n, c.Bool("mlp_bias"))
	}
	return x
}

// buildMiMo has blocks that predict further tokens.
func buildMiMo(b *builder) {
	c := b.c
	row := llamaLike
	row.QkvBias = "attention_bias"
	buildDecoder(b, row)
	h, a := c.Int("hidden_size"), c.Int("num_attention_heads")
	b.layers("model.mtp_layers.", c.Int("num_nextn_predict_layers"), func(int64) {
		at := &Attention{Heads: a, KV: c.IntOr("num_key_value_heads", a), Width: b.headDim(h, a)}
		bl := &Block{Attention: at, FF: &mlp{}}
		b.fill(bl, nil, h, 0, "-n=input_layernorm -n=post_attention_layernorm -n=token_layernorm -n=hidden_layernorm "+
			"-n=final_layernorm")
		b.linear("input_proj", RoleOther, 2*h, h, false)
		b.fill(bl, nil, h, c.Int("intermediate_size"), "q=self_attn.q_proj?attention_bias k=self_attn.k_proj?attention_bias "+
			"v=self_attn.v_proj?attention_bias o=self_attn.o_proj gate=mlp.gate_proj up=mlp.up_proj down=mlp.down_proj")
	})
}
