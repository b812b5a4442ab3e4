package network

import "strings"

// parts are a layer's, of a stream of h elements for each token.
type parts struct {
	*builder
	block    *Block
	at       *Attention // whose projections are meant, nil: the block's own
	h, inner int64      // elements of the stream, and within the feed-forward
	from     int64      // of what keys and values are made of, 0: the stream
	norm     normKind
}

// make makes those that words name, in their order, each as FIELD=TENSOR: with a + behind where it has a bias, with ?FLAG where a
// field of the configuration says whether it has one.
func (p parts) make(words string) {
	bl, at := p.block, p.at
	if at == nil {
		at = bl.Attention
	}
	f, _ := bl.FF.(*mlp)
	if at == nil {
		at = &Attention{}
	}
	if f == nil {
		f = &mlp{}
	}
	h, from, q, kv := p.h, p.from, at.Heads*at.Width, at.KV*at.Width
	if from == 0 {
		from = h
	}
	layers := map[string]struct {
		to      **Linear
		role    Role
		in, out int64
	}{"q": {&at.q, RoleAttention, h, q}, "k": {&at.k, RoleAttention, from, kv}, "v": {&at.v, RoleAttention, from, kv},
		"qkv": {&at.q, RoleAttention, h, q + 2*kv}, "o": {&at.o, RoleAttention, q, h}, "gate": {&f.gate, RoleMLP, h, p.inner},
		"up": {&f.up, RoleMLP, h, p.inner}, "gateUp": {&f.up, RoleMLP, h, 2 * p.inner}, "down": {&f.down, RoleMLP, p.inner, h}}
	norms := map[string]**norm{"attnIn": &bl.attnIn, "attnOut": &bl.attnOut, "crossIn": &bl.crossIn, "mlpIn": &bl.mlpIn,
		"mlpOut": &bl.mlpOut}
	for word := range strings.FieldsSeq(words) {
		field, name, _ := strings.Cut(word, "=")
		name, flag, _ := strings.Cut(name, "?")
		name, bias := strings.CutSuffix(name, "+")
		bias = bias || p.flag(flag)
		if l, ok := layers[field]; ok {
			*l.to = p.linear(name, l.role, l.in, l.out, bias)
		} else if part, scaled := strings.CutSuffix(field, "Scale"); scaled { // a weight for each channel of a part's result
			*norms[part+"Out"] = &norm{kind: layerScaleKind, size: h, weight: p.param(name, RoleNorm, h)}
		} else {
			*norms[field] = p.builder.norm(name, p.norm, h, bias)
		}
	}
}
