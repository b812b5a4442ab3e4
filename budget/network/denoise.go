package network

import "github.com/vramscope/vramscope/internal/words"

// PerLatent is how many of a picture's pixels in a row become one of the latents.
const PerLatent = 8

// textTokens is how long texts are that a pipeline encodes.
const textTokens = 77

// Picture is what convolutions see: square pictures of a batch.
type Picture struct {
	batch, side int64
}

// Pixels are those of one.
func (s Picture) Pixels() int64 { return s.side * s.side }

// denoiser runs a UNet.
type denoiser struct {
	r     *Step
	u     *UNet
	size  Picture
	time  *value // what stands for the time step
	text  *value
	skips []*value // what the way back takes of the way there
}

// denoise is a forward of the UNet, after the encoders where a step runs them.
func denoise(r *Step, b Batch) *value {
	m, u, batch := r.M, r.Model.UNet, r.M.Pass.Batch
	if m.Modes.Encodes {
		encodePictures(r, u.Beside)
	}
	d := &denoiser{r: r, u: u, size: u.picture(m)}
	d.text = &value{Mem: m.Keep(b.IDs), N: batch * textTokens * u.text, Width: m.Width}
	for i := 0; i < len(u.times); i += 2 {
		t := m.into(m.Tensor(batch*u.times[i].In, m.Width), u.times[i], actSilu, u.times[i+1])
		if d.time != nil {
			t = m.into(d.time, adds{t})
		}
		d.time = t
	}
	pixels := &value{Mem: m.Keep(b.Pixels), N: batch * d.size.Pixels() * u.channels, Width: m.Width}
	x := d.there(m.into(pixels, d.convolves(u.in)))
	for _, s := range u.middle {
		x = d.parts(x, s)
	}
	x = m.into(d.back(x), d.norms(u.last), actSilu)
	m.Drop(d.time, d.text)
	return m.into(x, d.convolves(u.out))
}

// there goes down through the stages, and leaves a way's results for the way back.
func (d *denoiser) there(x *value) *value {
	m := d.r.M
	d.skips = append(d.skips, m.Again(x))
	for _, s := range d.u.Down {
		for _, p := range s.parts {
			x = d.part(x, p)
			d.skips = append(d.skips, m.Again(x))
		}
		if s.resize != nil {
			d.size.side /= 2
			x = m.into(x, d.convolves(s.resize))
			d.skips = append(d.skips, m.Again(x))
		}
	}
	return x
}

// back goes up, each part beside what the way there has left.
func (d *denoiser) back(x *value) *value {
	m := d.r.M
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
			x = m.into(m.Replace(x, m.Gather(x, 4*x.N)), d.convolves(s.resize))
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
	m := d.r.M
	here := *d // in backward the sides are others
	x = m.Replace(x, d.repeated(x, nil, d.time, func(in *value) *value { return here.resnet(in, p.conv) }))
	if p.look != nil {
		x = m.Replace(x, d.transform(x, p.look))
	}
	return x
}

// repeated runs f with what else it is given, again in backward with checkpointing.
func (d *denoiser) repeated(x *value, b *Block, given *value, f func(*value) *value) *value {
	m := d.r.M
	if !m.Grad || !d.r.M.Modes.Recomputes {
		return f(x)
	}
	if b != nil && !x.NeedsGrad() && Trains(b.Adapters) { // its weights are reason enough to run it again
		m.Entry(x)
	}
	return m.Checkpoint(x, f, given.Mem)
}

func (d *denoiser) resnet(x *value, r *resnet) *value {
	m := d.r.M
	h := m.of(x, d.norms(r.norm1), actSilu, d.convolves(r.conv1))
	if d.time != nil && r.time != nil {
		h = m.into(h, adds{m.of(d.time, actSilu, r.time)})
	}
	h = m.into(h, d.norms(r.norm2), actSilu, d.convolves(r.conv2))
	in := m.Again(x)
	if r.shortcut != nil {
		in = m.into(in, d.convolves(r.shortcut))
	}
	y := m.of(in, plus{h}, m.Scale) // by a factor that is 1
	m.Drop(in, h)
	return y
}

// transform looks at the pixels as a sequence: they are copied so that channels come last, and back.
func (d *denoiser) transform(x *value, t *transformer) *value {
	m := d.r.M
	h := m.of(x, d.norms(t.norm))
	if t.in != nil {
		h = m.into(h, m.turned, t.in)
	} else {
		h = m.into(h, d.convolves(t.from), m.turned)
	}
	for _, b := range t.blocks {
		c := context{memory: d.text, self: shape{batch: d.size.batch, queries: d.size.Pixels(), keys: d.size.Pixels()},
			cross: shape{batch: d.size.batch, queries: d.size.Pixels(), keys: textTokens}}
		h = m.Replace(h, d.repeated(h, b, d.text, func(in *value) *value { return b.forward(m, in, c) }))
	}
	if t.out != nil {
		return m.into(h, t.out, m.Shift, plus{x}) // a copy whose gradient passes as it is
	}
	return m.into(h, m.Shift, d.convolves(t.to), plus{x})
}

func (d *denoiser) convolves(c *conv) convolves {
	return convolves{c.weight, c.bias, d.size.batch * d.size.Pixels() * c.out, 0}
}

// norms is a group norm.
func (d *denoiser) norms(n *norm) func(*value) *value {
	return func(x *value) *value {
		return d.r.M.Normalised(x, n.size, d.size.batch*d.u.groups, n.weight, n.bias)
	}
}

// turned is a copy with channels last. Its gradient lies as that does, and the norm before makes it contiguous.
func (m *Machine) turned(x *value) *value {
	y := m.Tensor(x.N, x.Width)
	b := x.Bytes()
	m.Record([]*value{y}, []*value{x}, nil, func(g []*storage) []*storage {
		m.Over = m.Alloc(b, words.Temporary)
		return []*storage{m.Keep(g[0])}
	})
	return y
}

// encodePictures runs the autoencoder's first half, in float32 where its files ask for that.
func encodePictures(r *Step, x *Companions) {
	m, grad, mixed := r.M, r.M.Grad, r.M.Mixed
	m.Grad, m.Mixed = false, false
	defer func() { m.Grad, m.Mixed = grad, mixed }()
	d := &denoiser{r: r, u: &UNet{groups: x.groups}, size: r.Model.UNet.picture(m)}
	d.size.side *= PerLatent
	width := m.Width
	if m.Modes.WidePixels {
		width = 4
	}
	in := m.Tensor(3*d.size.batch*d.size.Pixels(), width)
	y := m.of(in, d.convolves(x.in))
	for _, s := range x.encoder {
		given := m.Again(y) // whoever calls a stage has a name for it
		y = d.parts(y, s)
		if s.resize != nil {
			y = m.Replace(y, m.Tensor(y.N/d.size.Pixels()*(d.size.side+1)*(d.size.side+1), y.Width)) // with zeros at two sides
			d.size.side /= 2
			y = m.into(y, d.convolves(s.resize))
		}
		m.Drop(given)
	}
	m.Drop(m.into(y, d.norms(x.last), actSilu, d.convolves(x.out), d.convolves(x.quant)), in)
}

// UNetTargets are the layers that diffusers' scripts hang adapters on.
var UNetTargets = []string{"to_k", "to_q", "to_v", "to_out.0"}

// Latents are those of a step.
func (u *UNet) Latents(batch, resolution int64) Picture {
	x := Picture{batch, u.Side}
	if resolution > 0 {
		x.side = resolution / PerLatent
	}
	return x
}

// picture is what a pass sees.
func (u *UNet) picture(m *Machine) Picture { return u.Latents(m.Pass.Batch, m.Modes.Resolution) }
