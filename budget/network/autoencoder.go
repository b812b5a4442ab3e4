package network

import (
	"slices"

	"github.com/vramscope/vramscope/budget/modelfile"
)

// Companions are what a pipeline has beside the network that is trained: the autoencoder that makes latents of
// pictures, and encoders of text. Training scripts keep them as they are.
type Companions struct {
	encoder []stage // of the autoencoder, the half that a training runs
	in, out *conv
	last    *norm
	quant   *conv
	Pixels  *Model   // weights of the autoencoder
	Texts   []*Model // encoders of text
	groups  int64
	Assumed bool // no file of theirs was there
	XL      bool // of Stable Diffusion XL, whose files ask for an autoencoder in float32 whatever the UNet is
}

// What files of Stable Diffusion say of its autoencoder, which is nearly the same in all versions, and of its encoders of text:
// the first version has the first of SDXL's.
var (
	sdxlAutoencoder = map[string]any{"_class_name": "AutoencoderKL", "block_out_channels": []any{128, 256, 512, 512},
		"layers_per_block": 2, "latent_channels": 4, "in_channels": 3, "out_channels": 3, "norm_num_groups": 32}
	sdxlTexts = []map[string]any{
		{"architectures": []any{"CLIPTextModel"}, "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
			"num_attention_heads": 12, "vocab_size": 49408, "max_position_embeddings": 77, "hidden_act": "quick_gelu"},
		{"architectures": []any{"CLIPTextModelWithProjection"}, "hidden_size": 1280, "intermediate_size": 5120,
			"num_hidden_layers": 32, "num_attention_heads": 20, "vocab_size": 49408, "max_position_embeddings": 77,
			"hidden_act": "gelu", "projection_dim": 1280},
	}
	sd2Text = map[string]any{"architectures": []any{"CLIPTextModel"}, "hidden_size": 1024, "intermediate_size": 4096,
		"num_hidden_layers": 23, "num_attention_heads": 16, "vocab_size": 49408, "max_position_embeddings": 77,
		"hidden_act": "gelu"}
)

// TextWeights are the parameters of all encoders of text.
func (x *Companions) TextWeights() (n int64) {
	for _, t := range x.Texts {
		n += t.Counts().Total
	}
	return n
}

// textsOf are a UNet's where no file says them, by the width of the states that it looks at.
func textsOf(c *modelfile.Config) []map[string]any {
	switch c.Int("cross_attention_dim") {
	case 768:
		return sdxlTexts[:1]
	case 1024:
		return []map[string]any{sd2Text}
	}
	return sdxlTexts
}

// newCompanions builds what lies beside a UNet: the pipeline's, or its version's.
func newCompanions(b *builder, c *modelfile.Config) *Companions {
	x := &Companions{Pixels: &Model{}, XL: c.Str("addition_embed_type") == "text_time"}
	auto, has := c.Own("vae").(map[string]any)
	if !has {
		auto, x.Assumed = sdxlAutoencoder, true
	}
	whole, into, prefix := b.c, b.m, b.prefix
	defer func() { b.c, b.m, b.prefix = whole, into, prefix }()
	b.c, b.m, b.prefix = modelfile.New("AutoencoderKL", auto), x.Pixels, "vae."
	newAutoencoder(b, x)
	for i, name := range []string{"text_encoder", "text_encoder_2"} {
		fields, has := c.Own(name).(map[string]any)
		if texts := textsOf(c); !has && x.Assumed && i < len(texts) {
			fields = texts[i]
		}
		if fields == nil {
			continue
		}
		t := modelfile.New("clip_text_model", fields)
		m := &Model{}
		b.c, b.m, b.prefix = t, m, name+"."
		b.clipText(t)
		if t.Architecture() == "CLIPTextModelWithProjection" {
			b.linear("text_projection", RoleHead, m.Hidden, t.Int("projection_dim"), false)
		}
		x.Texts = append(x.Texts, m)
	}
	return x
}

// newAutoencoder is AutoencoderKL (diffusers/models/autoencoders/vae.py), of which a training runs the encoder.
func newAutoencoder(b *builder, x *Companions) {
	c := b.c
	widths := c.Ints("block_out_channels")
	if len(widths) < 2 || len(widths) > 8 || slices.Min(widths) <= 0 || c.Int("layers_per_block") > 64 {
		b.fail("diffusion isn't counted: an autoencoder with block_out_channels %v", widths)
	}
	x.groups = c.IntOr("norm_num_groups", 32)
	latents, n := c.IntOr("latent_channels", 4), c.IntOr("layers_per_block", 2)
	top := widths[len(widths)-1]
	b.under("encoder.", func() {
		x.in = newConv(b, "conv_in", c.IntOr("in_channels", 3), widths[0], 3)
		x.encoder = b.stages("down_blocks.", "downsampler", widths, n, 0, following(widths), sightless)
		x.encoder = append(x.encoder, newMiddle(b, top))
		x.last = b.norm("conv_norm_out", layerNormKind, top, true)
		x.out = newConv(b, "conv_out", top, 2*latents, 3)
	})
	x.quant = newConv(b, "quant_conv", 2*latents, 2*latents, 1)
	newConv(b, "post_quant_conv", latents, latents, 1)
	b.under("decoder.", func() {
		newConv(b, "conv_in", latents, top, 3)
		newMiddle(b, top)
		slices.Reverse(widths)
		b.stages("up_blocks.", "upsampler", widths, n+1, 0, following(widths), sightless)
		b.norm("conv_norm_out", layerNormKind, widths[len(widths)-1], true)
		newConv(b, "conv_out", widths[len(widths)-1], c.IntOr("out_channels", 3), 3)
	})
}

// newMiddle is the lowest stage, whose pixels look at each other with one head.
func newMiddle(b *builder, h int64) stage {
	s := stage{parts: []part{{conv: newResnet(b, h, h, 0)}, {conv: newResnet(b, h, h, 0)}}}
	b.norm("group_norm", layerNormKind, h, true)
	for _, name := range []string{"to_q", "to_k", "to_v", "to_out.0"} {
		b.linear(name, RoleVision, h, h, true)
	}
	return s
}
