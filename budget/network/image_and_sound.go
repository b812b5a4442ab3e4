package network

import (
	"cmp"

	"github.com/vramscope/vramscope/internal/words"
)

// image turns pixels into positions: a convolution over patches, perhaps a
// token in front, and learned positions.
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
