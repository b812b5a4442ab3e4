package network

import (
	"cmp"
	"strings"

	"github.com/vramscope/vramscope/internal/words"
)

// Encoders of images: layers over an image's patches; and what pixels and sounds become in front of layers.

// patching turns an image into embeddings: a strided convolution.
type patching struct {
	weight, bias *parameter
	class        *parameter // a token in front, nil without
	before       int64      // tokens in front, of which the others are made like the first
	pixels       int64      // numbers in one image
	width        int64      // of what becomes of a patch, 0: the model's
}

// visionLayer is a pre-norm encoder layer of an image model, of which words say the parts.
func (b *builder) visionLayer(words string, h, a, inner int64, drop, scoreDrop float64) *Block {
	bl := &Block{Attention: b.looks(h, a, scoreDrop, drop), FF: &mlp{act: b.activation("hidden_act"), drop: drop}}
	if b.c.Bool("use_swiglu_ffn") { // two thirds as wide, in eights
		inner = (inner*2/3 + 7) / 8 * 8
		bl.FF = &mlp{act: actSilu}
		words = strings.Replace(words, "up=mlp.fc1+ down=mlp.fc2+", "gate=mlp.gate_proj+ up=mlp.up_proj+ down=mlp.down_proj+", 1)
	}
	b.fill(bl, nil, h, inner, words)
	return bl
}

// imageSizes reads and checks an image encoder's sizes.
func (b *builder) imageSizes() (h, a, inner, patches int64) {
	c := b.c
	b.need("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "image_size", "patch_size",
		"num_channels")
	h, a, inner = c.Int("hidden_size"), c.Int("num_attention_heads"), c.Int("intermediate_size")
	side := c.Int("image_size") / c.Int("patch_size")
	divided(b, h, a)
	if side == 0 {
		b.fail("%s: patches of %d pixels do not fit into an image of %d", c.Type, c.Int("patch_size"), c.Int("image_size"))
	}
	return h, a, inner, side * side
}

// images are the families of one encoder over an image's patches. What else one has follows from its configuration: the scale of
// each part's result, gated layers, the feed-forward's width as a multiple.
type images struct {
	front        string // weights of the embeddings
	before       int64  // tokens in front
	norm         string // behind the embeddings
	layer, parts string
	final        string // norm
	turned       bool   // positions are turned into heads
}

// Layers' parts of families with encoders of images.
const (
	looksPlain = "q=attention.q_proj?qkv_bias k=attention.k_proj?qkv_bias v=attention.v_proj?qkv_bias o=attention.o_proj+ "
	patchAfter = "weight=embeddings.patch_embedding.weight:h,num_channels,patch_size,patch_size "
	placesAt   = "Position=embeddings.position_embedding.weight:all,h"
	patchesIn  = "weight=embeddings.patch_embeddings.projection.weight:h,num_channels,patch_size,patch_size " +
		"bias=embeddings.patch_embeddings.projection.bias:h"
	tokensOf = "class=embeddings.cls_token:1,1,h -=embeddings.mask_token:1,h@use_mask_token " +
		"Position=embeddings.position_embeddings:1,all,h "
	registers = "-=embeddings.register_tokens:1,num_register_tokens,h@num_register_tokens "
	clipParts = "attnIn=layer_norm1+ q=self_attn.q_proj+ k=self_attn.k_proj+ v=self_attn.v_proj+ o=self_attn.out_proj+ " +
		"mlpIn=layer_norm2+ up=mlp.fc1+ down=mlp.fc2+"
)

var imageKinds = map[string]images{
	"vit": {before: 1, front: tokensOf + patchesIn, layer: "layers.", final: "layernorm",
		parts: "attnIn=layernorm_before+ " + looksPlain + "mlpIn=layernorm_after+ up=mlp.fc1+ down=mlp.fc2+"},
	"dinov2": {before: 1, front: tokensOf + registers + patchesIn, layer: "encoder.layer.", final: "layernorm",
		parts: "attnIn=norm1+ " + looksPlain + "mlpIn=norm2+ up=mlp.fc1+ down=mlp.fc2+"},
	"dinov3_vit": {before: 1, turned: true, layer: "model.layer.", final: "norm",
		front: "class=embeddings.cls_token:1,1,h -=embeddings.mask_token:1,1,h " + registers +
			strings.ReplaceAll(patchesIn, ".projection", ""),
		parts: "q=attention.q_proj?query_bias k=attention.k_proj?key_bias v=attention.v_proj?value_bias " +
			"o=attention.o_proj?proj_bias up=mlp.up_proj?mlp_bias down=mlp.down_proj?mlp_bias " +
			"gate=mlp.gate_proj?mlp_bias@use_gated_mlp attnIn=norm1+ mlpIn=norm2+"},
	"siglip": {front: patchAfter + "bias=embeddings.patch_embedding.bias:h " + placesAt, layer: "encoder.layers.",
		parts: clipParts, final: "post_layernorm"},
	"clip": {before: 1, front: "class=embeddings.class_embedding:h " + patchAfter + placesAt, norm: "pre_layrnorm",
		layer: "encoder.layers.", parts: clipParts, final: "post_layernorm"},
}

// sees makes an encoder of images, and gives the width of its stream and of its feed-forwards.
func (b *builder) sees(im *Model, f images, drop, scoreDrop float64) (h, inner int64) {
	c := b.c
	h, a, inner, n := b.imageSizes()
	before, side := f.before, c.Int("image_size")
	if strings.Contains(f.front, registers) {
		before += c.Int("num_register_tokens")
	}
	im.Patch = &patching{before: before, pixels: c.Int("num_channels") * side * side}
	im.Hidden, im.Patches, im.embedDrop = h, n+before, drop
	b.make(parts{to: []any{im.Patch, im}, sizes: sizes{"h": h, "all": n + f.before}}, f.front)
	if f.norm != "" {
		im.embedNorm = b.norm(f.norm, layerNormKind, h, true)
	}
	if f.turned {
		im.RotaryWidth = h / a
	}
	b.layers(f.layer, c.Int("num_hidden_layers"), func(int64) {
		words := f.parts
		if f.turned || c.Float("layerscale_value") != 0 {
			words += " attnScale=layer_scale1.lambda1 mlpScale=layer_scale2.lambda1"
		}
		bl := b.visionLayer(words, h, a, inner, drop, scoreDrop)
		if f.turned {
			bl.Attention.rope = rotary{kind: ropeFull, dim: h / a, of: h / a}
		}
		im.Blocks = append(im.Blocks, bl)
	})
	im.final = b.norm(f.final, layerNormKind, h, true)
	return h, inner
}

// buildImages is ViT, DeiT, with one more token that distillation trains, or DINO, whose classifier takes the mean of the patches
// beside the first token.
func buildImages(b *builder) {
	c, m := b.c, b.m
	f, dino := imageKinds["vit"], strings.HasPrefix(c.Type, "dinov2")
	switch {
	case dino:
		f = imageKinds["dinov2"]
	case c.Type == "deit":
		f.before++
		f.front = tokensOf + "-=embeddings.distillation_token:1,1,h " + patchesIn
	}
	if ratio := c.Float("mlp_ratio"); ratio > 0 && !c.Has("intermediate_size") {
		b.c = c.With("intermediate_size", float64(int64(ratio*float64(c.Int("hidden_size")))))
	}
	kind := b.headUnder(c.Type + ".")
	h, _ := b.sees(m, f, c.Float("hidden_dropout_prob"), c.Float("attention_probs_dropout_prob"))
	if kind == headNone {
		if !dino {
			b.linear("pooler.dense", RoleOther, h, h, true)
		}
		m.Task = TaskBackbone
		return
	}
	b.prefix = ""
	if kind != headDefault && kind != headImage {
		b.noHead()
	}
	if dino {
		h *= 2
	}
	b.classifier(TaskClassify, "classifier", h, c.Labels(), true)
}

// buildDINO3 is a backbone alone.
func buildDINO3(b *builder) {
	b.m.Task = TaskBackbone
	b.sees(b.m, imageKinds["dinov3_vit"], 0, b.c.Float("attention_dropout"))
	if kind := b.headKind(); kind != headNone && kind != headDefault {
		b.noHead()
	}
}

// buildSigLIP is the encoder of images, alone or below a classifier.
func buildSigLIP(b *builder) {
	c, m, kind := b.c, b.m, b.headKind()
	if c.Type == "siglip" && kind != headImage {
		b.fail("siglip: text and images together aren't counted: give its vision_config, or the classifier of images")
	} else if c.Type == "siglip" {
		b.c = c.Nested("vision_config", "siglip_vision_model")
	}
	prefix := ""
	if m.Task = TaskBackbone; kind == headImage {
		prefix = "vision_model."
	}
	b.under(prefix, func() { b.sigLIP(m, b.c.Bool("vision_use_head")) })
	if b.c = c; kind == headImage {
		b.classifier(TaskClassify, "classifier", m.Hidden, c.Labels(), true)
	}
}

// sigLIP is the encoder, at whose end the attention of one learned position to all of an image's may stand.
func (b *builder) sigLIP(im *Model, headed bool) {
	h, inner := b.sees(im, imageKinds["siglip"], 0, b.c.Float("attention_dropout"))
	if headed {
		b.make(parts{role: RoleVision, sizes: sizes{"h": h, "inner": inner}}, "-=head.probe:1,1,h "+
			"-=head.attention.in_proj_weight:3*h,h -=head.attention.in_proj_bias:3*h -=head.attention.out_proj+:h>h "+
			"-n=head.layernorm+ -=head.mlp.fc1+:h>inner -=head.mlp.fc2+:inner>h")
	}
}

// image turns pixels into positions.
func (r *Step) image(mod *Model, b Batch) *value {
	m, pt := r.M, mod.Patch
	n, width := mod.Patches-pt.before, cmp.Or(pt.width, mod.Hidden)
	pixels := &value{Mem: m.Keep(b.Pixels), N: m.Pass.Batch * pt.pixels, Width: m.Wide}
	x := m.into(pixels, convolves{pt.weight, pt.bias, m.Pass.Batch * n * width, pixels.N})
	if pt.class != nil {
		c := m.Again(pt.class.Val)
		both := m.Cat(x, c)
		both.N = m.Pass.Batch * mod.Patches * mod.Hidden
		m.Release(both.Mem)
		both.Mem = m.Alloc(both.Bytes(), words.Temporary)
		m.Drop(x, c)
		x = both
	}
	if mod.Position != nil {
		x = m.into(x, plus{mod.Position.Val})
	}
	return m.into(x, mod.embedNorm, mod.embedDrop)
}

// convolution keeps its input; columns is what unfolding the input takes.
func (m *Machine) convolution(x *value, w, bias *parameter, out, columns int64) *value {
	in := m.Cast(x, m.Narrow(x.Width))
	k := m.Weight(w)
	ins := []*value{in, k}
	var b *value
	if bias != nil {
		b = m.Weight(bias)
		ins = append(ins, b)
	}
	y := m.Tensor(out, k.Width)
	m.Pulse(m.Cublas, words.Workspace)
	saved := []*storage{in.Mem, k.Mem}
	xb, wb, wc, e := in.Bytes(), k.Bytes(), m.WeightGrad(k), k.Width
	needX, needW := in.NeedsGrad(), k.NeedsGrad()
	m.Record([]*value{y}, ins, saved, func(g []*storage) []*storage {
		r := make([]*storage, len(ins))
		cols := m.Alloc(columns*e, words.Temporary)
		r[0], r[1] = m.AllocIf(needX, xb, words.Temporary), m.AllocIf(needW, wb, wc)
		if b.NeedsGrad() {
			r[2] = m.Alloc(bias.Val.N*e, wc)
		}
		m.Release(cols)
		return r
	})
	m.Drop(in, k, b)
	return y
}

// sound is whisper's front: two convolutions with gelu, and fixed positions.
func (r *Step) sound(mod *Model, b Batch) *value {
	m, c := r.M, mod.Sound
	in := &value{Mem: m.Keep(b.Pixels), N: m.Pass.Batch * c.frames * c.bins, Width: m.Wide}
	half := m.Pass.Batch * mod.Patches * c.h
	return m.into(in, convolves{c.w1, c.b1, m.Pass.Batch * c.frames * c.h, 3 * in.N}, actGelu,
		convolves{c.w2, c.b2, half, 3 * half}, actGelu, plus{mod.Position.Val}, mod.embedDrop)
}
