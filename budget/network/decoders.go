package network

import (
	"cmp"
	_ "embed"
	"reflect"
	"strings"
	"sync"

	"github.com/vramscope/vramscope/budget/modelfile"
)

// decoder is one row of the table of decoder-only language models: what configurations can't change.
type decoder struct {
	Model  string // prefix of everything but the head
	Bare   string // and where there is no head
	Embed  string // token embedding
	Layers string
	Final  string
	Head   string

	Norm       normKind
	NormBias   bool
	NoNorms    bool // olmo: norms without weights
	Attn       string
	Q, K, V, O string
	Qkv        string // one fused projection instead of q, k and v
	Mlp        string
	Gate, Up   string // gate empty: two matrices only
	GateUp     string // gate and up fused
	Down       string

	AttnIn, AttnOut, MlpIn, MlpOut string

	QkvBias, OBias, MlpBias string // "yes", a field, or empty
	HeadBias                string
	QNorm, KNorm            string
	Act                     string // field of the activation
	Rope                    ropeKind
	Spread                  int
	On                      string // what a layer's parts have that others don't, each FIELD or FIELD@FLAG with commas between
	Front, More             string // weights beside the embeddings, and behind a layer's others, in words with semicolons
	Tune                    func(b *builder, d *decoder, l *layerDraft)
	// PerLayer are sizes that layers don't share.
	PerLayer            func(b *builder, d *decoder, i int64, at *Attention, inner int64) int64
	Late                bool                                                 // norms are listed behind the others
	Attend              func(b *builder, d *decoder, at *Attention, h int64) // makes its projections, nil: as words have them
	Moe                 func(b *builder, i int64) FeedForward
	Mixer               func(b *builder, i, h int64) Mixer // nil where a layer has attention
	Both                bool                               // a mixer and attention side by side
	Parallel            string                             // "yes" or a field
	Setup               func(b *builder, d *decoder)
	OutDrop             string // dropout fields: on each part, on embeddings, on scores
	EmbedDrop, AttnDrop string
	ScaledEmbed         bool
	Encodes             bool // words are seen from both sides, and masked ones guessed
	Window              func(c *modelfile.Config, i int64) int64
	Inner               func(c *modelfile.Config) int64
	KvHeads             func(c *modelfile.Config) int64
	HeadWidth           string // field of a head's width, where that isn't head_dim
}

// layerDraft is a layer being built.
type layerDraft struct {
	i     int64
	attn  *Attention
	block *Block
}

// llamaLike are the names that most families have inherited.
var llamaLike = decoder{
	Model: "model.", Embed: "embed_tokens", Layers: "layers.", Final: "norm", Head: "lm_head",
	Norm: rmsNormKind, Attn: "self_attn.", Q: "q_proj", K: "k_proj", V: "v_proj", O: "o_proj",
	Mlp: "mlp.", Gate: "gate_proj", Up: "up_proj", Down: "down_proj",
	AttnIn: "input_layernorm", MlpIn: "post_attention_layernorm",
	Act: "hidden_act", Rope: ropeFull, AttnDrop: "attention_dropout",
}

//go:embed decoders.txt
var decoderRows string

// decoders are rows of decoders.txt, whose faults any test finds.
var decoders = sync.OnceValue(func() map[string]decoder {
	all := map[string]decoder{}
	for line := range strings.Lines(decoderRows) {
		family, changes, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || family[0] == '#' {
			continue
		}
		d := llamaLike
		row := reflect.ValueOf(&d).Elem()
		for word := range strings.SplitSeq(changes, " ") {
			name, value, _ := strings.Cut(word, "=")
			switch f := row.FieldByName(strings.ToUpper(name[:1]) + name[1:]); f.Kind() {
			case reflect.String:
				f.SetString(value)
			case reflect.Bool:
				f.SetBool(true)
			case reflect.Int:
				f.SetInt(kinds[name+"="+value])
			default:
				f.Set(reflect.ValueOf(quirks[value]))
			}
		}
		for name := range strings.FieldsSeq(family) {
			all[name] = d
		}
	}
	return all
})

// kinds are the numbers that stand in rows by their names.
var kinds = map[string]int64{"norm=layerNorm": int64(layerNormKind), "norm=rmsWide": int64(rmsWideKind),
	"norm=layerNormWide": int64(layerNormWideKind), "norm=layerNormNarrow": int64(layerNormNarrowKind),
	"norm=cohere": int64(cohereNormKind), "rope=none": int64(ropeNone), "rope=partial": int64(ropePartial),
	"rope=wide": int64(ropeWide), "spread=1": 1, "spread=2": 2}

// quirks are the functions that stand in rows by their names.
var quirks = map[string]any{"slidingAll": slidingAll, "slidingQwen": slidingQwen, "slidingTyped": slidingTyped,
	"slidingSmol": slidingSmol, "slidingGemma2": slidingGemma(2), "slidingGemma4": slidingGemma(4),
	"slidingGemma6": slidingGemma(6), "llama4Window": llama4Window, "turnedSmol": turnedSmol, "turnedInWindows": turnedInWindows,
	"stableHeads": stableHeads, "cohereHeads": cohereHeads, "gpt2Attention": gpt2Attention,
	"neoAttention": neoAttention, "optLayer": optLayer, "falconLayer": falconLayer,
	"mptLayer": mptLayer, "glmNorms": glmNorms, "optSetup": optSetup, "graniteRope": graniteRope,
	"mixtralExperts": mixtralExperts, "phimoeExperts": phimoeExperts, "olmoeExperts": olmoeExperts,
	"graniteExperts": graniteExperts, "graniteShared": graniteShared, "graniteHybrid": graniteHybrid, "glmExperts": glmExperts,
	"ernieExperts": ernieExperts, "minimaxExperts": minimaxExperts, "qwenExperts": qwenExperts, "ossExperts": ossExperts,
	"llama4Experts": llama4Experts, "jambaExperts": jambaExperts, "falconMixer": falconMixer, "hybridMixer": hybridMixer,
	"jambaMixer": jambaMixer, "gemmaTables": gemmaTables, "gemmaHeads": gemmaHeads, "gemma4Window": gemma4Window,
	"gemma4Layer": gemma4Layer, "gemma3nLayer": gemma3nLayer, "slidingGemma5": slidingGemma(5),
	"latentSetup": latentSetup, "latentParts": latentParts,
	"latentExperts": latentExperts, "kimiMixer": kimiMixer, "deltaNet": deltaNet, "gatedQuarter": gatedQuarter,
	"lfmMixer": lfmMixer, "lfmInner": lfmInner, "everyHead": everyHead, "prefixDense": prefixDense, "heliumHeads": heliumHeads,
	"xieluLayer":    xieluLayer,
	"cohereExperts": cohereExperts, "hunyuanExperts": hunyuanExperts,
	"slidingListed": slidingListed, "slidingAfterFirst": slidingAfterFirst, "bigCodeKV": bigCodeKV,
	"falconKV": falconKV, "mlpSize": widthOf("intermediate_size_mlp"), "ffnDim": widthOf("ffn_dim"),
	"nInner": widthOf("n_inner"), "halfInner": halfInner, "ffnHidden": widthOf("ffn_hidden_size"), "fourTimes": widthOf("")}

// widthOf is the feed-forward's, by a field, and without it four times the stream's.
func widthOf(field string) func(*modelfile.Config) int64 {
	return func(c *modelfile.Config) int64 { return c.IntOr(field, 4*c.Int("hidden_size")) }
}

// prefixDense is that of layers without experts in front of those with them.
func prefixDense(c *modelfile.Config) int64 {
	return c.IntOr("prefix_dense_intermediate_size", c.Int("intermediate_size"))
}

// halfInner: the first Qwen counts both halves.
func halfInner(c *modelfile.Config) int64 { return c.Int("intermediate_size") / 2 }

// flag is a field that says yes, or no behind an exclamation mark.
func (b *builder) flag(name string) bool {
	field, not := strings.CutPrefix(name, "!")
	return name == "yes" || name != "" && b.c.Bool(field) != not
}

// drop is a dropout field's probability.
func (b *builder) drop(name string) float64 {
	if name == "" {
		return 0
	}
	return b.c.Float(name)
}

// buildDecoder builds the network of a row.
func buildDecoder(b *builder, d decoder) {
	c, m := b.c, b.m
	h, a := c.Int("hidden_size"), c.Int("num_attention_heads")
	b.need("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
	k, hd, inner := d.sizes(b, h, a)
	m.Hidden, m.WordWidth, m.Vocab = h, h, c.Int("vocab_size")
	m.scaled = d.ScaledEmbed
	if d.Rope != ropeNone {
		m.RotaryWidth = hd
	}
	root, kind := b.prefix, b.headKind()
	switch {
	case kind == headSpan && d.Model == llamaLike.Model:
		b.prefix += "transformer."
	case kind == headNone:
		b.prefix += d.Bare
	default:
		b.prefix += d.Model
	}
	b.embedding(d.Embed, m.Vocab, h)
	m.embedDrop = b.drop(d.EmbedDrop)
	b.make(parts{to: []any{m}, norm: d.Norm, sizes: sizes{"h": h}}, d.Front)
	if d.Setup != nil {
		d.Setup(b, &d)
	}
	rot := rotary{kind: d.Rope, dim: hd, of: hd}
	if d.Rope == ropePartial {
		rot = b.partial(hd)
	}
	rot.spread = d.Spread
	b.layers(d.Layers, c.Int("num_hidden_layers"), func(i int64) {
		at := &Attention{Heads: a, KV: k, Width: hd, dv: hd, rope: rot, dropout: b.drop(d.AttnDrop)}
		m.Blocks = append(m.Blocks, b.decoderLayer(&d, i, at, h, inner))
	})
	if d.NoNorms || d.Final != "" {
		m.final = d.normed(b, cmp.Or(d.Final, "norm"), h)
	}
	b.prefix = root
	b.decoderHead(&d, kind)
}

// sizes are the key and value heads, the width of a head, and that of the feed-forward.
func (d *decoder) sizes(b *builder, h, a int64) (k, hd, inner int64) {
	c := b.c
	k, inner = c.IntOr("num_key_value_heads", a), c.IntOr("intermediate_size", 4*h)
	if d.KvHeads != nil {
		k = d.KvHeads(c)
	}
	b.heads(h, a, k)
	if hd = c.Int(d.HeadWidth); d.HeadWidth != "" {
		b.need(d.HeadWidth)
	} else {
		hd = b.headDim(h, a)
	}
	if d.KvHeads != nil && d.HeadWidth == "" { // families whose head is always h/a
		hd = h / a
	}
	if d.Inner != nil {
		inner = d.Inner(c)
	}
	return k, hd, inner
}

// decoderLayer is one layer of a row around its attention.
func (b *builder) decoderLayer(d *decoder, i int64, at *Attention, h, inner int64) *Block {
	c := b.c
	bl := &Block{Attention: at, parallel: b.flag(d.Parallel), drop: b.drop(d.OutDrop)}
	if d.Window != nil {
		at.Window = d.Window(c, i)
	}
	if d.PerLayer != nil {
		inner = d.PerLayer(b, d, i, at, inner)
	}
	norm := func(name string) *norm { return d.normed(b, name, h) }
	if !d.Late {
		bl.attnIn = norm(d.AttnIn)
	}
	if d.Mixer != nil {
		bl.Mixer = d.Mixer(b, i, h)
	}
	if bl.Mixer != nil && !d.Both {
		bl.Attention = nil
	} else {
		b.under(d.Attn, func() { d.attend(b, at, h) })
	}
	bl.attnOut = norm(d.AttnOut)
	if c.Type == "gpt2" && c.Bool("add_cross_attention") {
		cross := &Attention{Heads: at.Heads, KV: at.Heads, Width: at.Width, dv: at.Width, dropout: b.drop(d.AttnDrop),
			bidirectional: true}
		b.under("crossattention.", func() {
			b.fill(&Block{}, cross, h, 0, "k=c_attn^:h>2*h q=q_attn^ o=c_proj^")
		})
		bl.Cross, bl.crossIn = cross, norm("ln_cross_attn")
	}
	if !d.Late {
		bl.mlpIn = norm(d.MlpIn)
	}
	if d.Moe != nil {
		bl.FF = d.Moe(b, i)
	}
	if bl.FF == nil {
		b.under(d.Mlp, func() { bl.FF = b.feedForward(d, h, inner) })
	}
	if d.Late {
		bl.attnIn, bl.mlpIn = norm(d.AttnIn), norm(d.MlpIn)
	}
	bl.mlpOut = norm(d.MlpOut)
	p := parts{to: []any{at, bl}, norm: d.Norm, sizes: sizes{"h": h}}
	b.make(p, strings.ReplaceAll(d.More, ";", " "))
	p.turnOn(b, d.On)
	if d.Tune != nil {
		d.Tune(b, d, &layerDraft{i: i, attn: at, block: bl})
	}
	return bl
}

// normed is a norm of that name, nil without one.
func (d *decoder) normed(b *builder, name string, h int64) *norm {
	switch {
	case name == "":
		return nil
	case d.NoNorms:
		return &norm{kind: d.Norm, size: h}
	}
	return b.norm(name, d.Norm, h, d.NormBias)
}

// attend makes what attention projects with.
func (d *decoder) attend(b *builder, at *Attention, h int64) {
	if d.Attend != nil {
		d.Attend(b, d, at, h)
	} else {
		b.projections(d, at, h)
	}
}

// projections are those of a row's attention, with norms of queries and keys.
func (b *builder) projections(d *decoder, at *Attention, h int64) {
	words := "q=" + d.Q + "?" + d.QkvBias
	switch at.fused = d.Qkv != ""; {
	case at.gated:
		words += ":h>2*Heads*Width k=" + d.K + "?" + d.QkvBias + " v=" + d.V + "?" + d.QkvBias
	case at.fused:
		words = "qkv=" + d.Qkv + "?" + d.QkvBias
	case !at.takes:
		words += " k=" + d.K + "?" + d.QkvBias
		if !at.keysAsValues {
			words += " v=" + d.V + "?" + d.QkvBias
		}
	}
	words += " o=" + d.O + "?" + d.OBias
	if d.QNorm != "" {
		words += " qNorm=" + d.QNorm + ":Width"
		if !at.takes {
			words += " kNorm=" + d.KNorm + ":Width"
		}
	}
	b.make(parts{to: []any{at}, norm: d.Norm, sizes: sizes{"h": h}}, words)
}

func (b *builder) feedForward(d *decoder, h, inner int64) FeedForward {
	f := &mlp{act: actGelu, fused: d.GateUp != ""}
	if d.Act != "" {
		f.act = b.activationOf(d.Act)
	}
	words := "gate=" + d.Gate + "?" + d.MlpBias + " up=" + d.Up + "?" + d.MlpBias
	switch {
	case f.fused:
		words = "gateUp=" + d.GateUp + "?" + d.MlpBias
	case d.Gate == "":
		words = "up=" + d.Up + "?" + d.MlpBias
	}
	b.make(parts{to: []any{f}, sizes: sizes{"h": h, "inner": inner}}, words+" down="+d.Down+"?"+d.MlpBias)
	return f
}

// partial is a rotation of part of each head.
func (b *builder) partial(hd int64) rotary {
	c := b.c
	dim := int64(float64(hd) * c.Float("partial_rotary_factor"))
	if p, ok := c.Get("rope_parameters").(map[string]any); ok && p["partial_rotary_factor"] != nil {
		dim = int64(float64(hd) * modelfile.New("", p).Float("partial_rotary_factor"))
	}
	switch c.Type {
	case "gpt_neox", "gpt_neox_reward_model":
		dim = int64(float64(hd) * c.Float("rotary_pct"))
	case "phi3":
		dim = hd
		if f := c.Float("partial_rotary_factor"); f > 0 {
			dim = int64(float64(hd) * f)
		}
	case "gptj":
		dim = c.IntOr("rotary_dim", hd)
	}
	if dim <= 0 || dim > hd {
		dim = hd
	}
	b.m.RotaryWidth = dim
	return rotary{kind: ropePartial, dim: dim, of: hd}
}

func (b *builder) embedding(name string, vocab, width int64) {
	b.m.Embed = b.param(name+".weight", RoleEmbedding, vocab, width)
}

// oneScale are families that scale either the embeddings or the logits, not both.
var oneScale = map[string]bool{"gemma3n_text": true, "gemma4_text": true,
	"gemma": true, "gemma2": true, "gemma3_text": true, "cohere": true, "cohere2": true}

// tokenHeads is what families call the head that labels tokens, "score" where they aren't here.
var tokenHeads = map[string]string{"gpt2": "classifier", "gpt_neox": "classifier", "gpt_neo": "classifier", "bloom": "classifier",
	"falcon": "classifier", "eurobert": "classifier"}

// decoderHead puts the head on.
func (b *builder) decoderHead(d *decoder, kind headKind) {
	c, m := b.c, b.m
	if d.Encodes && (kind == headMasked || kind == headSequence) {
		b.headOf("eurobert", "", kind, m.WordWidth)
		return
	}
	switch kind {
	case headDefault, headLM, headSeq2Seq, headDouble:
		m.softcap = c.Float("final_logit_softcapping") > 0
		m.scaleHead = d.ScaledEmbed != oneScale[c.Type]
		b.wordHead(TaskCausal, d.Head, m.WordWidth)
		if b.flag(d.HeadBias) {
			m.Head.Bias = b.param(d.Head+".bias", RoleHead, m.Vocab)
		}
		if kind == headDouble {
			if c.Type != "gpt2" {
				b.noHead()
			}
			b.linear("multiple_choice_head.summary", RoleOther, m.WordWidth, 1, true)
		}
	case headNone, headSpan:
		b.simpleHead(kind, m.WordWidth)
	case headSequence:
		b.classifier(TaskClassify, "score", m.WordWidth, c.Labels(), false)
	case headReward:
		b.classifier(TaskClassify, "out_proj", m.WordWidth, 1, true)
	case headToken:
		b.classifier(TaskTokens, cmp.Or(tokenHeads[c.Type], "score"), m.WordWidth, c.Labels(), true)
	default:
		b.noHead()
	}
}
