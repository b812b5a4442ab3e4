package budget

import (
	"errors"
	"io"
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/budget/network"
)

const sightDown, sightUp = "CrossAttnDownBlock2D", "CrossAttnUpBlock2D"

// sdxlUNet is Stable Diffusion XL's.
func sdxlUNet() map[string]any {
	return map[string]any{"_class_name": network.UNetClass, "addition_embed_type": "text_time", "addition_time_embed_dim": 256.0,
		"attention_head_dim": []any{5.0, 10.0, 20.0}, "block_out_channels": []any{320.0, 640.0, 1280.0}, "cross_attention_dim": 2048.0,
		"down_block_types": []any{"DownBlock2D", sightDown, sightDown}, "up_block_types": []any{sightUp, sightUp, "UpBlock2D"},
		"layers_per_block": 2.0, "projection_class_embeddings_input_dim": 2816.0, "sample_size": 128.0,
		"transformer_layers_per_block": []any{1.0, 2.0, 10.0}, "use_linear_projection": true, "time_cond_proj_dim": nil}
}

// sd1UNet is that of Stable Diffusion 1.4 and 1.5, which has convolutions around its transformers.
func sd1UNet() map[string]any {
	return map[string]any{"_class_name": network.UNetClass, "attention_head_dim": 8.0,
		"block_out_channels": []any{320.0, 640.0, 1280.0, 1280.0}, "cross_attention_dim": 768.0,
		"down_block_types": []any{sightDown, sightDown, sightDown, "DownBlock2D"}, "sample_size": 64.0,
		"up_block_types": []any{"UpBlock2D", sightUp, sightUp, sightUp}, "layers_per_block": 2.0}
}

func denoiserOf(t *testing.T, fields map[string]any) (*Config, *network.Model) {
	t.Helper()
	c, err := newConfig(fields)
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.build()
	if err != nil {
		t.Fatal(err)
	}
	return c, m
}

// TestDenoiserParameters: as diffusers 0.42 has them on the meta device.
func TestDenoiserParameters(t *testing.T) {
	_, m := denoiserOf(t, sdxlUNet())
	got := []int64{m.Counts().Total, m.UNet.Beside.Pixels.Counts().Total}
	for _, x := range m.UNet.Beside.Texts {
		got = append(got, x.Counts().Total)
	}
	for i, want := range []int64{2567463684, 83653863, 123060480, 694659840} {
		if got[i] != want {
			t.Errorf("%d: %d parameters, want %d", i, got[i], want)
		}
	}
	if _, m := denoiserOf(t, sd1UNet()); m.Counts().Total != 859520964 || m.UNet.Beside.TextWeights() != 123060480 {
		t.Errorf("the first version: %d parameters, beside them %d", m.Counts().Total, m.UNet.Beside.TextWeights())
	}
	odd := sdxlUNet()
	maps.Copy(odd, map[string]any{"block_out_channels": []any{32.0, 64.0}, "down_block_types": []any{sightDown, "DownBlock2D"},
		"up_block_types": []any{"UpBlock2D", sightUp}, "attention_head_dim": 4.0, "cross_attention_dim": 40.0, "layers_per_block": 1.0,
		"norm_num_groups": 8.0, "transformer_layers_per_block": nil, "addition_embed_type": nil})
	if _, m := denoiserOf(t, odd); m.Counts().Total != 795524 || len(m.Params) != 208 {
		t.Errorf("a small UNet: %d parameters in %d tensors", m.Counts().Total, len(m.Params))
	}
	maps.Copy(odd, map[string]any{"block_out_channels": []any{32.0, 64.0, 64.0, 96.0},
		"down_block_types": []any{sightDown, "DownBlock2D", sightDown, sightDown}, "in_channels": 9.0, "layers_per_block": 3.0,
		"up_block_types": []any{sightUp, sightUp, "UpBlock2D", sightUp}, "attention_head_dim": []any{2.0, 4.0, 8.0, 8.0},
		"transformer_layers_per_block": []any{1.0, 2.0, 3.0, 4.0}, "addition_embed_type": "text_time",
		"projection_class_embeddings_input_dim": 64.0, "vae": map[string]any{"block_out_channels": []any{32.0, 64.0, 64.0},
			"layers_per_block": 1.0, "latent_channels": 8.0, "norm_num_groups": 8.0}})
	_, m = denoiserOf(t, odd)
	if m.Counts().Total != 11627908 || len(m.Params) != 1694 {
		t.Errorf("a UNet of four stages: %d parameters in %d tensors", m.Counts().Total, len(m.Params))
	}
	if n := m.UNet.Beside.Pixels; n.Counts().Total != 961739 || len(n.Params) != 152 || len(m.UNet.Beside.Texts) != 0 {
		t.Errorf("its autoencoder: %d parameters in %d tensors, %d encoders of text", n.Counts().Total, len(n.Params),
			len(m.UNet.Beside.Texts))
	}
}

// denoiserRuns are steps of SDXL's UNet, and of diffusers' LoRA script with its encoders, recorded with diffusers 0.42 on a
// simulated GPU by testdata/diffusion_step.py: requested bytes after loading, and at most forward, backward and in the step.
var denoiserRuns = []struct {
	name  string
	s     Setting
	bytes [4]int64
}{
	{"bf16", Setting{Batch: 1, Resolution: 1024}, [4]int64{5134927368, 22325416044, 22307112952, 25675741244}},
	{"bf16, checkpointed", Setting{Batch: 1, Resolution: 1024, Checkpointing: "full"},
		[4]int64{5134927368, 16024179628, 20871980536, 25675741244}},
	{"autocast, two pictures, fused AdamW", Setting{Batch: 2, Resolution: 768, Checkpointing: "full", Precision: "bf16-mixed",
		Optimizer: "adamw-fused"}, [4]int64{10269854736, 36739842712, 41441970284, 41081274464}},
	{"autocast", Setting{Batch: 1, Resolution: 1024, Checkpointing: "full", Precision: "fp16-mixed"},
		[4]int64{10269854736, 36650307012, 41406524568, 51350509156}},
	{"fp32", Setting{Batch: 1, Resolution: 512, Precision: "fp32"}, [4]int64{10269854736, 34305013776, 41311562212, 51350237296}},
	{"LoRA, two pictures", Setting{Batch: 2, Resolution: 768, LoRA: 16, CachedLatents: true},
		[4]int64{5227824648, 14254758640, 14222360052, 5601081904}},
	{"LoRA, four pictures", Setting{Batch: 4, Resolution: 1024, LoRA: 64, Checkpointing: "full", CachedLatents: true},
		[4]int64{5506516488, 8902613592, 9138299228, 6997814872}},
	{"LoRA", Setting{Batch: 1, Resolution: 1024, LoRA: 4, Precision: "fp16", Checkpointing: "full", CachedLatents: true},
		[4]int64{5158151688, 5833037724, 5926792736, 5252284444}},
	{"LoRA with the encoders", Setting{Batch: 1, LoRA: 4, Precision: "fp16", Checkpointing: "full"},
		[4]int64{7128209012, 9871595740, 7909433588, 7234925296}},
}

func TestDenoiserRuns(t *testing.T) {
	c, _ := denoiserOf(t, sdxlUNet())
	for _, r := range denoiserRuns {
		b, err := Compute(c, r.s)
		if err != nil {
			t.Fatal(err)
		}
		checkBudget(t, r.name, b)
		got := [4]int64{b.Phase(Load).Peak, max(b.Phase(Forward).Peak, b.Phase(Loss).Peak), b.Phase(Backward).Peak, b.Phase(Optimizer).Peak}
		for i, limit := range []float64{0.0001, 0.021, 0.011, 0.002} {
			if off := float64(got[i])/float64(r.bytes[i]) - 1; math.Abs(off) > limit {
				t.Errorf("%s: phase %d takes %d, recorded were %d (%+.2f %%)", r.name, i, got[i], r.bytes[i], 100*off)
			}
		}
		nothingStays(t, c, r.s)
	}
}

// TestDenoiserRefused: what isn't counted is refused by its flag, and what a UNet has that SDXL's hasn't by its field.
func TestDenoiserRefused(t *testing.T) {
	c, _ := denoiserOf(t, sdxlUNet())
	for want, s := range map[string]Setting{"--inference": {Inference: true}, "--fsdp": {FSDP: "full", GPUs: 2}, "--compile": {Compile: true},
		"--precision int4": {LoRA: 4, Precision: "int4"}, "--adapter dora": {LoRA: 4, DoRA: true}, "--resolution 1000": {Resolution: 1000},
		"--attention eager": {Attention: "eager"}, "--framework torchtune": {Framework: "torchtune"}} {
		if _, err := Compute(c, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for field, v := range map[string]any{"class_embed_type": "timestep", "attention_type": "gated",
		"down_block_types": []any{"AttnDownBlock2D", sightDown, sightDown}, "block_out_channels": []any{320.0, 0.0, 1280.0},
		"layers_per_block": []any{2.0, 2.0, 2.0}, "attention_head_dim": []any{5.0, 10.0}, "num_attention_heads": []any{5.0},
		"transformer_layers_per_block": []any{1.0, []any{2.0, 2.0}, 4.0}, "sample_size": 0.0,
		"mid_block_type": nil, "conv_in_kernel": 5.0, "num_class_embeds": 1000.0,
		"reverse_transformer_layers_per_block": []any{4.0, 2.0, 1.0}} {
		fields := sdxlUNet()
		fields[field] = v
		if _, err := newConfig(fields); err == nil || !strings.Contains(err.Error(), "diffusion isn't counted: "+field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	fields := sdxlUNet()
	fields["layers_per_block"], fields["transformer_layers_per_block"] = 64.0, 1000.0
	if _, err := newConfig(fields); err == nil {
		t.Error("millions of layers")
	}
	if _, err := Compute(smallConfig(t, "llama"), Setting{CachedLatents: true}); err == nil {
		t.Error("a language model with latents")
	}
}

// TestPipeline: an index says which parts there are; others than SDXL's are refused by name.
func TestPipeline(t *testing.T) {
	files := map[string]string{"unet": `{"_class_name": "UNet2DConditionModel", "block_out_channels": [32, 64], "cross_attention_dim": 40,
		"down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"], "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"],
		"use_linear_projection": true, "attention_head_dim": 4, "norm_num_groups": 8, "layers_per_block": 1}`,
		"vae": `{"block_out_channels": [32, 64, 64], "layers_per_block": 1, "latent_channels": 8, "norm_num_groups": 8}`,
		"text_encoder": `{"model_type": "clip_text_model", "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
		"num_attention_heads": 2, "vocab_size": 99, "max_position_embeddings": 77}`}
	open := func(folder string) (io.ReadCloser, error) {
		if text := files[folder]; text != "" {
			return io.NopCloser(strings.NewReader(text)), nil
		}
		return nil, errors.New(folder + " isn't there")
	}
	const index = `{"_class_name": "StableDiffusionXLPipeline", "unet": ["diffusers", "UNet2DConditionModel"], "vae": ["diffusers", "AutoencoderKL"],
		"text_encoder": ["transformers", "CLIPTextModel"], "text_encoder_2": [null, null], "scheduler": ["diffusers", "EulerDiscreteScheduler"]}`
	c, err := ReadPipeline(strings.NewReader(index), open)
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.build()
	if err != nil {
		t.Fatal(err)
	}
	if x := m.UNet.Beside; m.Counts().Total != 795524 || x.Assumed || x.Pixels.Counts().Total != 961739 || len(x.Texts) != 1 {
		t.Errorf("%d parameters, beside them %+v", m.Counts().Total, x)
	}
	for want, index := range map[string]string{
		`diffusion isn't counted: "FluxPipeline"`: `{"_class_name": "FluxPipeline"}`,
		`"T5EncoderModel"`:                        strings.Replace(index, "CLIPTextModel", "T5EncoderModel", 1),
		"text_encoder_2 isn't there":              strings.Replace(index, "[null, null]", `["transformers", "CLIPTextModelWithProjection"]`, 1),
		"names no unet":                           `{"_class_name": "StableDiffusionXLPipeline"}`} {
		if _, err := ReadPipeline(strings.NewReader(index), open); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
