package budget

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/internal/units"
)

// perLatent is how many of a picture's pixels in a row become one of the latents.
const perLatent = 8

// textTokens is how long texts are that a pipeline encodes.
const textTokens = 77

// latents are those of a step.
func latents(p *plan) image {
	x := image{p.Batch, p.model.unet.side}
	if p.Resolution > 0 {
		x.side = p.Resolution / perLatent
	}
	return x
}

// encodesHere says whether pictures and texts are encoded within a step: scripts that train adapters do so, and those that
// train everything have done it beforehand and let the encoders go (train_text_to_image_sdxl.py).
func encodesHere(p *plan) bool { return !p.CachedLatents && p.adapts() }

// unetTargets are the layers that diffusers' scripts hang adapters on.
var unetTargets = []string{"to_k", "to_q", "to_v", "to_out.0"}

// scriptOfAdapters says whether adapters are trained as diffusers' scripts do it, under autocast on 16-bit weights.
func scriptOfAdapters(p *plan) bool { return p.model.unet != nil && p.adapts() && p.width == 2 }

// diffuses refuses what isn't counted of a UNet's training, and what its pictures can't be.
func diffuses(p *plan) error {
	u, s := p.model.unet, p.Setting
	if u == nil {
		if s.Resolution > 0 || s.CachedLatents {
			return fmt.Errorf("--resolution and --cached-latents are of diffusion, and %s is none", p.model.config.Type)
		}
		return nil
	}
	if n := s.Resolution; n%(perLatent<<len(u.down)) != 0 {
		return fmt.Errorf("--resolution %d: a multiple of %d", n, perLatent<<len(u.down))
	}
	for _, x := range []struct {
		flag string
		has  bool
	}{{"inference", s.Inference}, {"fsdp", s.FSDP != ""}, {"zero", s.Zero > 0}, {"tp", s.TP > 1}, {"pp", s.PP > 1},
		{"cp", s.CP > 1},
		{"ep", s.EP > 1}, {"compile", s.Compile}, {"float8", s.Float8}, {"mxfp8", s.MXFP8}, {"freeze", s.Freeze > 0},
		{"attention " + s.Attention, s.Attention == "eager"}, {"reference", s.References > 0},
		{"precision " + s.Precision, !slices.Contains([]string{"fp32", "bf16", "fp16", "bf16-mixed", "fp16-mixed"}, s.Precision)},
		{"checkpointing " + s.Checkpointing, s.Checkpointing != "none" && s.Checkpointing != "full"},
		{"adapter " + s.Adapter, s.adapts() && s.Adapter != "lora" && s.Adapter != "rslora"},
		{"offload " + s.Offload, s.Offload != "none"}, {"optimizer-in-backward", s.OptimizerInBackward},
		{"activation-offload", s.ActivationOffload}, {"framework " + s.Framework, s.Framework != fallback}} {
		if x.has {
			return fmt.Errorf("--%s isn't counted for %s: full training and LoRA as diffusers' scripts have them are", x.flag,
				unetClass)
		}
	}
	size := latents(p)
	p.Sequence = size.pixels()
	return nil
}

// explainDiffusion notes what is taken for granted of a UNet's training.
func explainDiffusion(p *plan, b *Budget) {
	u := p.model.unet
	if u == nil {
		return
	}
	switch x := u.beside; {
	case encodesHere(p):
		b.note("each step encodes its pictures (%s parameters, float32) and texts (%s, as wide as the UNet): --cached-latents "+
			"leaves both encoders out", units.Count(int(x.pixels.counts().Total)), units.Count(int(x.textWeights())))
		if x.assumed {
			b.note("the encoders are taken as Stable Diffusion XL's: a pipeline's folder tells its own")
		}
	case !p.CachedLatents:
		b.note("pictures and texts are taken as encoded beforehand, as train_text_to_image_sdxl.py does it: no encoders on the " +
			"GPU")
	}
	if p.adapts() && p.LoRATargets == "all" {
		b.note("adapters hang on %s, as diffusers' scripts have it", strings.Join(unetTargets, ", "))
	}
	b.note("workspaces of convolutions aren't counted: what cuDNN takes depends on the GPU")
}

// loadBeside puts the encoders on the device that a step runs: the autoencoder in float32, as its files ask for.
func loadBeside(r *run) {
	p, m := r.p, r.m
	if p.model.unet == nil || !encodesHere(p) {
		return
	}
	x := p.model.unet.beside
	for _, q := range x.pixels.params {
		q.Trainable = false
		q.Val = &value{Mem: m.Alloc(4*q.Elements(), Weights), N: q.Elements(), Width: 4, Leaf: q}
	}
	for _, t := range x.texts {
		m.Alloc(p.width*t.counts().Total, Weights)
	}
}

// image is what convolutions see: square pictures of a batch.
type image struct {
	batch, side int64
}

func (s *image) pixels() int64 { return s.side * s.side }

// denoiser runs a UNet.
type denoiser struct {
	r     *run
	u     *unet
	size  image
	time  *value // what stands for the time step
	text  *value
	skips []*value // what the way back takes of the way there
}

// denoise is a forward of the UNet, after the encoders where a step runs them.
func denoise(r *run, b batchOf) *value {
	m, u, batch := r.m, r.mod.unet, r.p.Batch
	if encodesHere(r.p) {
		encodePictures(r, u.beside)
	}
	d := &denoiser{r: r, u: u, size: latents(r.p)}
	d.text = &value{Mem: m.Keep(b.ids), N: batch * textTokens * u.text, Width: m.Width}
	for i := 0; i < len(u.times); i += 2 {
		in := m.Tensor(batch*u.times[i].In, m.Width)
		t := m.Replace(in, m.apply(in, u.times[i]))
		t = m.Replace(t, m.activate(t, actSilu))
		t = m.Replace(t, m.apply(t, u.times[i+1]))
		if d.time != nil {
			t = m.Replace(t, m.Replace(d.time, m.Add(d.time, t)))
		}
		d.time = t
	}
	pixels := &value{Mem: m.Keep(b.pixels), N: batch * d.size.pixels() * u.channels, Width: m.Width}
	x := m.Replace(pixels, d.convolve(pixels, u.in))
	x = d.there(x)
	for _, s := range u.middle {
		x = d.parts(x, s)
	}
	x = d.back(x)
	x = m.Replace(x, d.normed(x, u.last))
	x = m.Replace(x, m.activate(x, actSilu))
	m.Drop(d.time, d.text)
	return m.Replace(x, d.convolve(x, u.out))
}

// there goes down through the stages, and leaves a way's results for the way back.
func (d *denoiser) there(x *value) *value {
	m := d.r.m
	d.skips = append(d.skips, m.Again(x))
	for _, s := range d.u.down {
		for _, p := range s.parts {
			x = d.part(x, p)
			d.skips = append(d.skips, m.Again(x))
		}
		if s.resize != nil {
			d.size.side /= 2
			x = m.Replace(x, d.convolve(x, s.resize))
			d.skips = append(d.skips, m.Again(x))
		}
	}
	return x
}

// back goes up, each part beside what the way there has left.
func (d *denoiser) back(x *value) *value {
	m := d.r.m
	for _, s := range d.u.up {
		var taken []*value
		for _, p := range s.parts {
			skip := d.skips[len(d.skips)-1]
			d.skips, taken = d.skips[:len(d.skips)-1], append(taken, skip)
			x = m.Replace(x, m.Cat(x, skip))
			x = d.part(x, p)
		}
		if s.resize != nil {
			d.size.side *= 2
			x = m.Replace(x, m.Gather(x, 4*x.N))
			x = m.Replace(x, d.convolve(x, s.resize))
		}
		m.Drop(taken...)
	}
	return x
}

func (d *denoiser) parts(x *value, s stage) *value {
	for _, p := range s.parts {
		x = d.part(x, p)
	}
	return x
}

// part is a ResnetBlock2D and a transformer, each checkpointed by itself where the setting says so.
func (d *denoiser) part(x *value, p part) *value {
	m := d.r.m
	here := *d // in backward the sides are others
	x = m.Replace(x, d.repeated(x, nil, d.time, func(in *value) *value { return here.resnet(in, p.conv) }))
	if p.look != nil {
		x = m.Replace(x, d.transform(x, p.look))
	}
	return x
}

// repeated runs f with what else it is given, again in backward with checkpointing.
func (d *denoiser) repeated(x *value, b *block, given *value, f func(*value) *value) *value {
	m := d.r.m
	if !m.Grad || !d.r.p.recomputes() {
		return f(x)
	}
	if b != nil && !x.NeedsGrad() && trains(b.adapters) { // its weights are reason enough to run it again
		m.Entry(x)
	}
	return m.Checkpoint(x, f, given.Mem)
}

func (d *denoiser) resnet(x *value, r *resnet) *value {
	m := d.r.m
	h := d.normed(x, r.norm1)
	h = m.Replace(h, m.activate(h, actSilu))
	h = m.Replace(h, d.convolve(h, r.conv1))
	if d.time != nil && r.time != nil {
		t := m.activate(d.time, actSilu)
		t = m.Replace(t, m.apply(t, r.time))
		h = m.Replace(t, m.Replace(h, m.Add(h, t)))
	}
	h = m.Replace(h, d.normed(h, r.norm2))
	h = m.Replace(h, m.activate(h, actSilu))
	h = m.Replace(h, d.convolve(h, r.conv2))
	in := m.Again(x)
	if r.shortcut != nil {
		in = m.Replace(in, d.convolve(in, r.shortcut))
	}
	sum := m.Add(in, h)
	y := m.Scale(sum) // by a factor that is 1
	m.Drop(sum, in, h)
	return y
}

// transform looks at the pixels as a sequence: they are copied so that channels come last, and back.
func (d *denoiser) transform(x *value, t *transformer) *value {
	m := d.r.m
	h := d.normed(x, t.norm)
	h = m.Replace(h, turned(m, h))
	h = m.Replace(h, m.apply(h, t.in))
	for _, b := range t.blocks {
		c := context{memory: d.text, self: shape{batch: d.size.batch, queries: d.size.pixels(), keys: d.size.pixels()},
			cross: shape{batch: d.size.batch, queries: d.size.pixels(), keys: textTokens}}
		h = m.Replace(h, d.repeated(h, b, d.text, func(in *value) *value { return b.forward(m, in, c) }))
	}
	h = m.Replace(h, m.apply(h, t.out))
	h = m.Replace(h, m.Shift(h)) // a copy whose gradient passes as it is
	y := m.Add(h, x)
	m.Drop(h)
	return y
}

func (d *denoiser) convolve(x *value, c *conv) *value {
	return d.r.m.convolution(x, c.weight, c.bias, d.size.batch*d.size.pixels()*c.out, 0)
}

// normed is a group norm.
func (d *denoiser) normed(x *value, n *norm) *value {
	return d.r.m.Normalised(x, n.size, d.size.batch*d.u.groups, n.weight, n.bias)
}

// turned is a copy with channels last. Its gradient lies as that does, and the norm before makes it contiguous.
func turned(m *machine, x *value) *value {
	y := m.Tensor(x.N, x.Width)
	b := x.Bytes()
	m.Record([]*value{y}, []*value{x}, nil, func(g []*storage) []*storage {
		m.Over = m.Alloc(b, Temporary)
		return []*storage{m.Keep(g[0])}
	})
	return y
}

// encodePictures runs the autoencoder's first half in float32, as its files ask for.
func encodePictures(r *run, x *companions) {
	m, grad, mixed := r.m, r.m.Grad, r.m.Mixed
	m.Grad, m.Mixed = false, false
	defer func() { m.Grad, m.Mixed = grad, mixed }()
	d := &denoiser{r: r, u: &unet{groups: x.groups}, size: latents(r.p)}
	d.size.side *= perLatent
	in := m.Tensor(3*d.size.batch*d.size.pixels(), 4)
	y := d.convolve(in, x.in)
	for _, s := range x.encoder {
		given := m.Again(y) // whoever calls a stage has a name for it
		y = d.parts(y, s)
		if s.resize != nil {
			y = m.Replace(y, m.Tensor(y.N/d.size.pixels()*(d.size.side+1)*(d.size.side+1), y.Width)) // with zeros at two sides
			d.size.side /= 2
			y = m.Replace(y, d.convolve(y, s.resize))
		}
		m.Drop(given)
	}
	y = m.Replace(y, d.normed(y, x.last))
	y = m.Replace(y, m.activate(y, actSilu))
	y = m.Replace(y, d.convolve(y, x.out))
	y = m.Replace(y, d.convolve(y, x.quant))
	m.Drop(y, in)
}
