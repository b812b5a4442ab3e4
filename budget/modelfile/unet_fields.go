package modelfile

import (
	"fmt"
	"maps"
	"slices"
)

// DownSight and UpSight are stages of a UNet that look at the text, on the way there and back.
const DownSight, UpSight = "CrossAttnDownBlock2D", "CrossAttnUpBlock2D"

// unetFields are those that may say only what files of Stable Diffusion do, a word or nothing.
var unetFields = map[string]string{"act_fn": "silu", "addition_embed_type": "text_time", "resnet_time_scale_shift": "default",
	"attention_type": "default", "mid_block_type": "UNetMidBlock2DCrossAttn", "class_embed_type": "", "encoder_hid_dim_type": "",
	"time_cond_proj_dim": "", "dual_cross_attention": "", "only_cross_attention": "", "time_embedding_act_fn": "",
	"cross_attention_norm": "", "reverse_transformer_layers_per_block": "", "num_class_embeds": ""}

// UnknownUNet names a field that says something else than files of Stable Diffusion do, "" without one.
func UnknownUNet(c *Config, widths []int64) string {
	n := len(widths)
	if n < 2 || n > 8 || slices.Min(widths) <= 0 {
		return "block_out_channels"
	}
	looks := 256 / max(c.IntOr("layers_per_block", 2), 1) // transformers' layers in each of a stage's
	for _, x := range []struct {
		field string
		known bool
	}{
		{"down_block_types", only(c.List("down_block_types"), n, DownSight, "DownBlock2D")},
		{"up_block_types", only(c.List("up_block_types"), n, UpSight, "UpBlock2D")},
		{"layers_per_block", within(c.Get("layers_per_block"), 64)},
		{"cross_attention_dim", c.Int("cross_attention_dim") > 0},
		{"sample_size", within(c.Get("sample_size"), 1<<14)},
		{"mid_block_type null", !c.IsNull("mid_block_type")},
		{"conv_in_kernel", c.IntOr("conv_in_kernel", 3) == 3},
		{"conv_out_kernel", c.IntOr("conv_out_kernel", 3) == 3},
		{"transformer_layers_per_block", eachWithin(c, "transformer_layers_per_block", n, looks)},
		{"attention_head_dim", eachWithin(c, "attention_head_dim", n, 1<<10)},
		{"num_attention_heads", eachWithin(c, "num_attention_heads", n, 1<<10)},
	} {
		if !x.known {
			return x.field
		}
	}
	for _, field := range slices.Sorted(maps.Keys(unetFields)) {
		if v := c.Get(field); v != nil && v != false && v != unetFields[field] {
			return field
		}
	}
	return ""
}

// eachWithin says whether a field is one small whole number, or a list of n.
func eachWithin(c *Config, field string, n int, most int64) bool {
	l := c.List(field)
	return l == nil && within(c.Get(field), most) || len(l) == n &&
		!slices.ContainsFunc(l, func(v any) bool { return v == nil || !within(v, most) })
}

// within says whether a field is left out, or a whole number of at least one and at most so much.
func within(v any, most int64) bool {
	n := AsInt(v)
	return v == nil || n >= 1 && n <= most && fmt.Sprint(v) == fmt.Sprint(n)
}

// only says whether a list has n elements, each of which is one of two words.
func only(l []any, n int, a, b string) bool {
	return len(l) == n && !slices.ContainsFunc(l, func(v any) bool { return v != a && v != b })
}
