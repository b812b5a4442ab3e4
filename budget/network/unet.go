package network

import (
	"slices"
	"strconv"

	"github.com/vramscope/vramscope/budget/modelfile"
)

// UNetClass is what diffusers calls the network, as its config.json does.
const UNetClass = "UNet2DConditionModel"

// UNet is the denoiser of Stable Diffusion and SDXL: convolutions on an image of latents, with blocks of a
// newTransformer between them (diffusers/models/unets/unet_2d_condition.py).
type UNet struct {
	times            []*Linear // of the time step, and of the picture's size and the text as one vector
	in, out          *conv
	Down, middle, up []stage
	last             *norm
	groups           int64
	channels, text   int64 // of the latents, and of the text's states
	vector           int64 // what stands for the picture's size and the text
	Side             int64 // of the latents, where nobody says
	Beside           *Companions
}

// stage is what works at one resolution.
type stage struct {
	parts  []part
	resize *conv // halves or doubles the sides, nil without
}

// newPart is two convolutions and, in most, a transformer.
type part struct {
	conv *resnet
	look *transformer
}

// newConv is a square convolution.
type conv struct {
	weight, bias *parameter
	out          int64
}

// newResnet is diffusers' ResnetBlock2D.
type resnet struct {
	norm1, norm2           *norm
	conv1, conv2, shortcut *conv
	time                   *Linear
}

// newTransformer is Transformer2DModel: blocks on the pixels as a sequence, which look at the text, too.
type transformer struct {
	norm     *norm
	in, out  *Linear // nil where convolutions of one pixel stand there, as in Stable Diffusion 1
	from, to *conv
	blocks   []*Block
}

// buildUNet makes the network of a config.json of diffusers.
func buildUNet(b *builder) {
	c, m := b.c, b.m
	widths := c.Ints("block_out_channels")
	n := int64(len(widths))
	u := &UNet{groups: c.IntOr("norm_num_groups", 32), channels: c.IntOr("in_channels", 4), text: c.Int("cross_attention_dim"),
		vector: c.Int("projection_class_embeddings_input_dim"), Side: c.IntOr("sample_size", 128)}
	m.UNet, m.Hidden, m.Task = u, widths[n-1], TaskBackbone
	heads, depth := perStage(c, "attention_head_dim", n), perStage(c, "transformer_layers_per_block", n)
	if own := perStage(c, "num_attention_heads", n); own != nil {
		heads = own
	}
	wide := 4 * widths[0]
	u.in = newConv(b, "conv_in", u.channels, widths[0], 3)
	u.times = []*Linear{b.linear("time_embedding.linear_1", RoleOther, widths[0], wide, true),
		b.linear("time_embedding.linear_2", RoleOther, wide, wide, true)}
	if c.Str("addition_embed_type") == "text_time" {
		u.times = append(u.times, b.linear("add_embedding.linear_1", RoleOther, u.vector, wide, true),
			b.linear("add_embedding.linear_2", RoleOther, wide, wide, true))
	}
	layers := c.IntOr("layers_per_block", 2)
	from, back := widths[n-1], slices.Clone(widths)
	slices.Reverse(back)
	sight := func(field, kind string, heads, depth []int64) func(int) (int64, int64) {
		return func(i int) (int64, int64) {
			if c.List(field)[i] != kind {
				return sightless(i)
			}
			return heads[i], depth[i]
		}
	}
	u.Down = b.stages("down_blocks.", "downsamplers.0.conv", widths, layers, wide, following(widths),
		sight("down_block_types", modelfile.DownSight, heads, depth))
	slices.Reverse(heads)
	slices.Reverse(depth)
	u.up = b.stages("up_blocks.", "upsamplers.0.conv", back, layers+1, wide, func(i int, j int64) int64 {
		if j == layers { // beside what is left of the stage that is next
			return following(back)(i, j) + back[min(i+1, int(n)-1)]
		}
		return following(back)(i, j) + back[i]
	}, sight("up_block_types", modelfile.UpSight, heads, depth))
	b.under("mid_block.", func() {
		looks := newPart(b, 0, from, from, wide, heads[0], depth[0])
		u.middle = append(u.middle, stage{parts: []part{looks, newPart(b, 1, from, from, wide, -1, 0)}})
	})
	u.last = b.norm("conv_norm_out", layerNormKind, widths[0], true)
	u.out = newConv(b, "conv_out", widths[0], c.IntOr("out_channels", 4), 3)
	u.Beside = newCompanions(b, c)
}

// stages are those of one way, of given widths: each part takes so many channels of those before it, and some look at the text.
func (b *builder) stages(name, resize string, widths []int64, layers, wide int64, in func(i int, j int64) int64,
	sight func(i int) (heads, depth int64)) (all []stage) {
	for i, out := range widths {
		s := stage{}
		b.under(name+strconv.Itoa(i)+".", func() {
			heads, depth := sight(i)
			for j := range layers {
				s.parts = append(s.parts, newPart(b, j, in(i, j), out, wide, heads, depth))
			}
			if i < len(widths)-1 {
				s.resize = newConv(b, resize, out, out, 3)
			}
		})
		all = append(all, s)
	}
	return all
}

// following takes the channels of the part before, of the stage before in the first.
func following(widths []int64) func(int, int64) int64 {
	return func(i int, j int64) int64 {
		if j == 0 {
			i = max(i-1, 0)
		}
		return widths[i]
	}
}

// sightless is no transformer.
func sightless(int) (heads, depth int64) { return -1, 0 }

// perStage is a number for each stage, of a list or one for all; nil without a field.
func perStage(c *modelfile.Config, field string, n int64) []int64 {
	if l := c.Ints(field); int64(len(l)) >= n {
		return l[:n]
	}
	one := c.IntOr(field, 1)
	if c.Get(field) == nil && field == "num_attention_heads" {
		return nil
	}
	return slices.Repeat([]int64{one}, int(n))
}

func newConv(b *builder, name string, in, out, side int64) *conv {
	return &conv{weight: b.param(name+".weight", RoleOther, out, in, side, side), bias: b.param(name+".bias", RoleOther, out),
		out: out}
}

// newPart is the j-th of a stage.
func newPart(b *builder, j, in, out, wide, heads, depth int64) (p part) {
	if heads != -1 {
		b.under("attentions."+strconv.FormatInt(j, 10)+".", func() { p.look = newTransformer(b, out, heads, depth) })
	}
	b.under("resnets."+strconv.FormatInt(j, 10)+".", func() { p.conv = newResnet(b, in, out, wide) })
	return p
}

// newResnet has a projection of the time step where that is wide.
func newResnet(b *builder, in, out, wide int64) *resnet {
	r := &resnet{norm1: b.norm("norm1", layerNormKind, in, true), conv1: newConv(b, "conv1", in, out, 3)}
	if wide > 0 {
		r.time = b.linear("time_emb_proj", RoleOther, wide, out, true)
	}
	r.norm2, r.conv2 = b.norm("norm2", layerNormKind, out, true), newConv(b, "conv2", out, out, 3)
	if in != out {
		r.shortcut = newConv(b, "conv_shortcut", in, out, 1)
	}
	return r
}

func newTransformer(b *builder, h, heads, depth int64) *transformer {
	if heads <= 0 || h%heads != 0 {
		b.fail("%s: %d heads of %d channels", UNetClass, heads, h)
	}
	t := &transformer{norm: b.norm("norm", layerNormKind, h, true)}
	linear := b.c.Bool("use_linear_projection")
	if linear {
		t.in = b.linear("proj_in", RoleOther, h, h, true)
	} else {
		t.from = newConv(b, "proj_in", h, h, 1)
	}
	b.layers("transformer_blocks.", depth, func(int64) {
		bl := &Block{Attention: b.looks(h, heads, 0, 0), Cross: b.looks(h, heads, 0, 0), FF: &mlp{fused: true, act: actGelu}}
		bl.Attention.uncached, bl.Cross.uncached = true, true
		b.fill(bl, nil, h, 4*h, "attnIn=norm1+ q=attn1.to_q k=attn1.to_k v=attn1.to_v o=attn1.to_out.0+ crossIn=norm2+")
		b.fill(bl, bl.Cross, h, 4*h, "q=attn2.to_q k=attn2.to_k:cross_attention_dim>h v=attn2.to_v:cross_attention_dim>h "+
			"o=attn2.to_out.0+ mlpIn=norm3+ gateUp=ff.net.0.proj+ down=ff.net.2+")
		b.m.Blocks, t.blocks = append(b.m.Blocks, bl), append(t.blocks, bl)
	})
	if linear {
		t.out = b.linear("proj_out", RoleOther, h, h, true)
	} else {
		t.to = newConv(b, "proj_out", h, h, 1)
	}
	return t
}
