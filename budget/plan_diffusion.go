package budget

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/budget/network"
	"github.com/vramscope/vramscope/budget/settings"
	"github.com/vramscope/vramscope/internal/units"
)

// encodesHere says whether pictures and texts are encoded within a step: scripts that train adapters do so, and those that train
// all of Stable Diffusion 1 or 2 (train_text_to_image.py). That of XL has done it beforehand and let the encoders go
// (train_text_to_image_sdxl.py).
func encodesHere(p *plan) bool {
	return p.model.UNet != nil && !p.CachedLatents && (p.Adapts() || !p.model.UNet.Beside.XL)
}

// scriptOfAdapters says whether adapters are trained as diffusers' scripts do it, under autocast on 16-bit weights.
func scriptOfAdapters(p *plan) bool { return p.model.UNet != nil && p.Adapts() && p.width == 2 }

// widePixels says whether pictures are encoded in float32, as scripts do with XL's own autoencoder.
func (p *plan) widePixels() bool { return p.model.UNet != nil && p.model.UNet.Beside.XL && !p.OtherVAE }

func (p *plan) pixelWidth() int64 {
	if p.widePixels() {
		return 4
	}
	return p.width
}

// diffuses refuses what isn't counted of a UNet's training, and what its pictures can't be.
func diffuses(p *plan) error {
	u, s := p.model.UNet, p.Setting
	if u == nil {
		if s.Resolution > 0 || s.CachedLatents {
			return fmt.Errorf("--resolution and --cached-latents are of diffusion, and %s is none", p.model.Config.Type)
		}
		return nil
	}
	if n := s.Resolution; n%(network.PerLatent<<len(u.Down)) != 0 {
		return fmt.Errorf("--resolution %d: a multiple of %d", n, network.PerLatent<<len(u.Down))
	}
	for _, x := range []struct {
		flag string
		has  bool
	}{{"inference", s.Inference}, {"fsdp", s.FSDP != ""}, {"zero", s.Zero > 0}, {"tp", s.TP > 1}, {"pp", s.PP > 1},
		{"cp", s.CP > 1},
		{"ep", s.EP > 1}, {"compile", s.Compile}, {"float8", s.Float8}, {"mxfp8", s.MXFP8}, {"freeze", s.Freeze > 0},
		{"set frozen or trained", s.Frozen != "" || s.Trained != ""},
		{"attention " + s.Attention, s.Attention == "eager"}, {"reference", s.References > 0},
		{"precision " + s.Precision, !slices.Contains([]string{"fp32", "bf16", "fp16", "bf16-mixed", "fp16-mixed"}, s.Precision)},
		{"checkpointing " + s.Checkpointing, s.Checkpointing != "none" && s.Checkpointing != "full"},
		{"adapter " + s.Adapter, s.Adapts() && s.Adapter != "lora" && s.Adapter != "rslora"},
		{"offload " + s.Offload, s.Offload != "none"}, {"optimizer-in-backward", s.OptimizerInBackward},
		{"activation-offload", s.ActivationOffload}, {"framework " + s.Framework, s.Framework != settings.Fallback}} {
		if x.has {
			return fmt.Errorf("--%s isn't counted for %s: full training and LoRA as diffusers' scripts have them are", x.flag,
				network.UNetClass)
		}
	}
	size := u.Latents(p.Batch, p.Resolution)
	p.Sequence = size.Pixels()
	return nil
}

// explainDiffusion notes what is taken for granted of a UNet's training.
func explainDiffusion(p *plan, b *Budget) {
	u := p.model.UNet
	if u == nil {
		return
	}
	switch x := u.Beside; {
	case encodesHere(p):
		width := "as wide as what is computed in"
		if p.pixelWidth() == 4 {
			width = "float32"
		}
		b.note("each step encodes its pictures (%s parameters, %s) and texts (%s, as wide as what is computed in): "+
			"--cached-latents leaves both encoders out", units.Count(int(x.Pixels.Counts().Total)), width,
			units.Count(int(x.TextWeights())))
		if x.Assumed {
			b.note("the encoders are taken as Stable Diffusion's of this version: a pipeline's folder tells its own")
		}
	case !p.CachedLatents:
		b.note("pictures and texts are taken as encoded beforehand, as train_text_to_image_sdxl.py does it: no encoders on the " +
			"GPU")
	}
	if p.Adapts() && p.LoRATargets == "all" {
		b.note("adapters hang on %s, as diffusers' scripts have it", strings.Join(network.UNetTargets, ", "))
	}
	b.note("workspaces of convolutions aren't counted: what cuDNN takes depends on the GPU")
}

// loadBeside puts the encoders on the device that a step runs.
func loadBeside(r *run) {
	p, m := r.p, r.M
	if p.model.UNet == nil || !encodesHere(p) {
		return
	}
	x := p.model.UNet.Beside
	for _, q := range x.Pixels.Params {
		q.Trainable = false
		q.Val = &value{Mem: m.Alloc(p.pixelWidth()*q.Elements(), Weights), N: q.Elements(), Width: p.pixelWidth(), Leaf: q}
	}
	for _, t := range x.Texts {
		m.Alloc(p.width*t.Counts().Total, Weights)
	}
}
