package network

import (
	"cmp"
	_ "embed"
	"reflect"
	"strings"
	"sync"

	"github.com/vramscope/vramscope/budget/modelfile"
)

// decoder is one row of the table of decoder-only language models: what the
// family calls its tensors, which norms, biases and projections it has, and
// what its code keeps. Everything that a configuration can change is read
// from its field; the rest is the family's.
type decoder struct {
	model     string // prefix of everything but the head
	bare      string // and where there is no head
	embed     string // token embedding
	positions string // learned positions, empty without
	layers    string
	final     string
	head      string

	norm       normKind
	normBias   bool
	noNorms    bool // olmo: norms without weights
	attn       string
	q, k, v, o string
	qkv        string // one fused projection instead of q, k and v
	mlp        string
	gate, up   string // gate empty: two matrices only
	gateUp     string // gate and up fused
	down       string
	conv1D     bool

	attnIn, attnOut, mlpIn, mlpOut string

	qkvBias, oBias, mlpBias string // "yes", a field, or empty
	headBias                string
	qNorm, kNorm            string
	act                     string // field of the activation
	rope                    ropeKind
	spread                  int
	tune                    func(b *builder, d *decoder, l *layerDraft)
	// perLayer are sizes that layers don't share.
	perLayer            func(b *builder, d *decoder, i int64, at *Attention, inner int64) int64
	moe                 func(b *builder, i int64) FeedForward
	mixer               func(b *builder, i, h int64) Mixer // nil where a layer has attention
	both                bool                               // a mixer and attention side by side
	parallel            string                             // "yes" or a field
	setup               func(b *builder, d *decoder)
	outDrop             string // dropout fields: on each part, on embeddings, on scores
	embedDrop, attnDrop string
	scaledEmbed         bool
	window              func(c *modelfile.Config, i int64) int64
	inner               func(c *modelfile.Config) int64
	kvHeads             func(c *modelfile.Config) int64
}

// layerDraft is a layer being built.
type layerDraft struct {
	i     int64
	attn  *Attention
	block *Block
}

// llamaLike are the names that most families have inherited.
var llamaLike = decoder{
	model: "model.", embed: "embed_tokens", layers: "layers.", final: "norm", head: "lm_head",
	norm: rmsNormKind, attn: "self_attn.", q: "q_proj", k: "k_proj", v: "v_proj", o: "o_proj",
	mlp: "mlp.", gate: "gate_proj", up: "up_proj", down: "down_proj",
	attnIn: "input_layernorm", mlpIn: "post_attention_layernorm",
	act: "hidden_act", rope: ropeFull, attnDrop: "attention_dropout",
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
		fields := d.fields()
		for word := range strings.SplitSeq(changes, " ") {
			name, value, _ := strings.Cut(word, "=")
			switch f := reflect.ValueOf(fields[name]).Elem(); f.Kind() {
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
		all[family] = d
	}
	return all
})

// fields are the places of a row's, by name.
func (d *decoder) fields() map[string]any {
	return map[string]any{"model": &d.model, "bare": &d.bare, "embed": &d.embed, "positions": &d.positions, "layers": &d.layers,
		"final": &d.final, "head": &d.head, "norm": &d.norm, "normBias": &d.normBias, "noNorms": &d.noNorms, "attn": &d.attn,
		"q": &d.q, "k": &d.k, "v": &d.v, "o": &d.o, "qkv": &d.qkv, "mlp": &d.mlp, "gate": &d.gate, "up": &d.up,
		"gateUp": &d.gateUp, "down": &d.down, "conv1D": &d.conv1D, "attnIn": &d.attnIn, "attnOut": &d.attnOut, "mlpIn": &d.mlpIn,
		"mlpOut": &d.mlpOut, "qkvBias": &d.qkvBias, "oBias": &d.oBias, "mlpBias": &d.mlpBias, "headBias": &d.headBias,
		"qNorm": &d.qNorm, "kNorm": &d.kNorm, "act": &d.act, "rope": &d.rope, "spread": &d.spread, "tune": &d.tune,
		"perLayer": &d.perLayer, "moe": &d.moe,
		"mixer": &d.mixer, "both": &d.both, "parallel": &d.parallel, "setup": &d.setup, "outDrop": &d.outDrop,
		"embedDrop": &d.embedDrop, "attnDrop": &d.attnDrop, "scaledEmbed": &d.scaledEmbed, "window": &d.window, "inner": &d.inner,
		"kvHeads": &d.kvHeads}
}

// kinds are the numbers that stand in rows by their names.
var kinds = map[string]int64{"norm=layerNorm": int64(layerNormKind), "norm=rmsWide": int64(rmsWideKind),
	"norm=layerNormWide": int64(layerNormWideKind), "norm=layerNormNarrow": int64(layerNormNarrowKind),
	"norm=cohere": int64(cohereNormKind), "rope=none": int64(ropeNone), "rope=partial": int64(ropePartial),
	"rope=wide": int64(ropeWide), "spread=1": 1, "spread=2": 2}

// quirks are the functions that stand in rows by their names.
var quirks = map[string]any{"slidingAll": slidingAll, "slidingQwen": slidingQwen, "slidingTyped": slidingTyped,
	"slidingSmol": slidingSmol, "slidingGemma2": slidingGemma(2), "slidingGemma4": slidingGemma(4),
	"slidingGemma6": slidingGemma(6), "llama4Window": llama4Window, "turnedSmol": turnedSmol, "turnedInWindows": turnedInWindows,
	"softCapped": softCapped, "scaledParts": scaledParts, "wholeQKNorm": wholeQKNorm, "phiNorms": phiNorms,
	"stableHeads": stableHeads, "cohereHeads": cohereHeads, "withSinks": withSinks, "gpt2Attention": gpt2Attention,
	"neoAttention": neoAttention, "optLayer": optLayer, "bloomLayer": bloomLayer, "falconLayer": falconLayer,
	"glmNorms": glmNorms, "optSetup": optSetup, "bloomSetup": bloomSetup, "graniteRope": graniteRope,
	"mixtralExperts": mixtralExperts, "phimoeExperts": phimoeExperts, "olmoeExperts": olmoeExperts,
	"graniteExperts": graniteExperts, "graniteShared": graniteShared, "graniteHybrid": graniteHybrid, "glmExperts": glmExperts,
	"ernieExperts": ernieExperts, "minimaxExperts": minimaxExperts, "qwenExperts": qwenExperts, "ossExperts": ossExperts,
	"llama4Experts": llama4Experts, "jambaExperts": jambaExperts, "falconMixer": falconMixer, "bambaMixer": bambaMixer,
	"jambaMixer": jambaMixer, "gemmaTables": gemmaTables, "gemmaHeads": gemmaHeads, "gemma4Window": gemma4Window,
	"gemma4Layer": gemma4Layer, "gemma3nLayer": gemma3nLayer, "slidingGemma5": slidingGemma(5), "graniteMixer": graniteMixer,
	"lfmMixer": lfmMixer, "lfmInner": lfmInner, "everyHead": everyHead,
	"bigCodeKV": bigCodeKV, "falconKV": falconKV, "mlpSize": widthOf("intermediate_size_mlp"), "ffnDim": widthOf("ffn_dim"),
	"nInner": widthOf("n_inner"), "ffnHidden": widthOf("ffn_hidden_size"), "fourTimes": widthOf("")}

// widthOf is the feed-forward's, by a field, and without it four times the stream's.
func widthOf(field string) func(*modelfile.Config) int64 {
	return func(c *modelfile.Config) int64 { return c.IntOr(field, 4*c.Int("hidden_size")) }
}

func (b *builder) flag(name string) bool {
	return name == "yes" || name != "" && b.c.Bool(name)
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
	if !b.need("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads") {
		return
	}
	k, hd, inner := d.sizes(b, h, a)
	m.Hidden, m.WordWidth, m.Vocab = h, h, c.Int("vocab_size")
	m.scaled = d.scaledEmbed
	if d.rope != ropeNone {
		m.RotaryWidth = hd
	}
	root, kind := b.prefix, b.headKind()
	switch {
	case kind == headSpan && d.model == llamaLike.model:
		b.prefix += "transformer."
	case kind == headNone:
		b.prefix += d.bare
	default:
		b.prefix += d.model
	}
	b.embedding(d.embed, m.Vocab, h)
	m.embedDrop = b.drop(d.embedDrop)
	if d.positions != "" {
		m.Position = b.param(d.positions+".weight", RolePosition, c.Int("max_position_embeddings"), h)
	}
	if d.setup != nil {
		d.setup(b, &d)
	}
	rot := rotary{kind: d.rope, dim: hd, of: hd}
	if d.rope == ropePartial {
		rot = b.partial(hd)
	}
	rot.spread = d.spread
	b.layers(d.layers, c.Int("num_hidden_layers"), func(i int64) {
		at := &Attention{Heads: a, KV: k, Width: hd, dv: hd, rope: rot, dropout: b.drop(d.attnDrop)}
		m.Blocks = append(m.Blocks, b.decoderLayer(&d, i, at, h, inner))
	})
	if d.noNorms {
		m.final = &norm{kind: d.norm, size: h}
	} else if d.final != "" {
		m.final = b.norm(d.final, d.norm, h, d.normBias)
	}
	b.prefix = root
	b.decoderHead(&d, kind)
}

// sizes are the key and value heads, the width of a head, and that of the feed-forward.
func (d *decoder) sizes(b *builder, h, a int64) (k, hd, inner int64) {
	c := b.c
	k, inner = c.IntOr("num_key_value_heads", a), c.IntOr("intermediate_size", 4*h)
	if d.kvHeads != nil {
		k = d.kvHeads(c)
	}
	b.heads(h, a, k)
	hd = b.headDim(h, a)
	if d.kvHeads != nil || d.conv1D { // families whose head is always h/a
		hd = h / a
	}
	if d.inner != nil {
		inner = d.inner(c)
	}
	if c.Has("n_inner") && d.conv1D || c.Type == "gptj" {
		inner = c.IntOr("n_inner", 4*h)
	}
	return k, hd, inner
}

// decoderLayer is one layer of a row around its attention.
func (b *builder) decoderLayer(d *decoder, i int64, at *Attention, h, inner int64) *Block {
	c := b.c
	bl := &Block{Attention: at, parallel: b.flag(d.parallel), drop: b.drop(d.outDrop)}
	if d.window != nil {
		at.Window = d.window(c, i)
	}
	if d.perLayer != nil {
		inner = d.perLayer(b, d, i, at, inner)
	}
	norm := func(name string) *norm {
		if name == "" {
			return nil
		}
		if d.noNorms {
			return &norm{kind: d.norm, size: h}
		}
		return b.norm(name, d.norm, h, d.normBias)
	}
	bl.attnIn = norm(d.attnIn)
	if d.mixer != nil {
		bl.Mixer = d.mixer(b, i, h)
	}
	if bl.Mixer != nil && !d.both {
		bl.Attention = nil
	} else {
		b.under(d.attn, func() { b.projections(d, at, h) })
	}
	bl.attnOut = norm(d.attnOut)
	if c.Type == "gpt2" && c.Bool("add_cross_attention") {
		cross := &Attention{Heads: at.Heads, KV: at.Heads, Width: at.Width, dv: at.Width, dropout: b.drop(d.attnDrop),
			bidirectional: true}
		b.under("crossattention.", func() {
			cross.k, cross.q = b.conv1D("c_attn", RoleAttention, h, 2*h), b.conv1D("q_attn", RoleAttention, h, h)
			cross.o = b.conv1D("c_proj", RoleAttention, h, h)
		})
		bl.Cross, bl.crossIn = cross, norm("ln_cross_attn")
	}
	bl.mlpIn = norm(d.mlpIn)
	if d.moe != nil {
		bl.FF = d.moe(b, i)
	}
	if bl.FF == nil {
		b.under(d.mlp, func() { bl.FF = b.feedForward(d, h, inner) })
	}
	bl.mlpOut = norm(d.mlpOut)
	if d.tune != nil {
		d.tune(b, d, &layerDraft{i: i, attn: at, block: bl})
	}
	return bl
}

func (b *builder) projections(d *decoder, at *Attention, h int64) {
	hq, hk := at.Heads*at.Width, at.KV*at.Width
	switch {
	case d.qkv != "" && d.conv1D:
		at.q, at.fused = b.conv1D(d.qkv, RoleAttention, h, hq+2*hk), true
		at.o = b.conv1D(d.o, RoleAttention, hq, h)
		return
	case d.qkv != "":
		at.q, at.fused = b.linear(d.qkv, RoleAttention, h, hq+2*hk, b.flag(d.qkvBias)), true
	case at.takes:
		at.q = b.linear(d.q, RoleAttention, h, hq, b.flag(d.qkvBias))
	default:
		at.q = b.linear(d.q, RoleAttention, h, hq, b.flag(d.qkvBias))
		at.k = b.linear(d.k, RoleAttention, h, hk, b.flag(d.qkvBias))
		if !at.keysAsValues {
			at.v = b.linear(d.v, RoleAttention, h, hk, b.flag(d.qkvBias))
		}
	}
	at.o = b.linear(d.o, RoleAttention, hq, h, b.flag(d.oBias))
	if d.qNorm != "" {
		at.qNorm = b.norm(d.qNorm, d.norm, at.Width, false)
		if !at.takes {
			at.kNorm = b.norm(d.kNorm, d.norm, at.Width, false)
		}
	}
}

func (b *builder) feedForward(d *decoder, h, inner int64) FeedForward {
	f := &mlp{act: b.activation(d.act), drop: 0}
	if d.act == "" {
		f.act = actGelu
	}
	bias := b.flag(d.mlpBias)
	switch {
	case d.conv1D:
		f.up, f.down = b.conv1D(d.up, RoleMLP, h, inner), b.conv1D(d.down, RoleMLP, inner, h)
	case d.gateUp != "":
		f.up, f.fused = b.linear(d.gateUp, RoleMLP, h, 2*inner, bias), true
		f.down = b.linear(d.down, RoleMLP, inner, h, bias)
	default:
		if d.gate != "" {
			f.gate = b.linear(d.gate, RoleMLP, h, inner, bias)
		}
		f.up = b.linear(d.up, RoleMLP, h, inner, bias)
		f.down = b.linear(d.down, RoleMLP, inner, h, bias)
	}
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
	"falcon": "classifier"}

// llamaEnd is the last norm, and a head as llama's.
func llamaEnd(b *builder, name string, of normKind, h int64, kind headKind) {
	b.m.final = b.norm(name, of, h, false)
	b.prefix = ""
	row := llamaLike
	b.decoderHead(&row, kind)
}

// decoderHead puts the head on.
func (b *builder) decoderHead(d *decoder, kind headKind) {
	c, m := b.c, b.m
	switch kind {
	case headDefault, headLM, headSeq2Seq, headDouble:
		m.softcap = c.Float("final_logit_softcapping") > 0
		m.scaleHead = d.scaledEmbed != oneScale[c.Type]
		b.wordHead(TaskCausal, d.head, m.WordWidth)
		if b.flag(d.headBias) {
			m.Head.Bias = b.param(d.head+".bias", RoleHead, m.Vocab)
		}
		if kind == headDouble {
			if c.Type != "gpt2" {
				b.noHead()
			}
			b.linear("multiple_choice_head.summary", RoleOther, m.WordWidth, 1, true)
		}
	case headNone:
		m.Task = TaskBackbone
	case headSequence:
		b.classifier(TaskClassify, "score", m.WordWidth, c.Labels(), false)
	case headReward:
		b.classifier(TaskClassify, "out_proj", m.WordWidth, 1, true)
	case headToken:
		m.Task, m.Vocab = TaskTokens, c.Labels()
		m.Head = b.linear(cmp.Or(tokenHeads[c.Type], "score"), RoleHead, m.WordWidth, c.Labels(), true)
	case headSpan:
		b.classifier(TaskTokens, "qa_outputs", m.WordWidth, 2, true)
	default:
		b.noHead()
	}
}
