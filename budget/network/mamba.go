package network

import "github.com/vramscope/vramscope/internal/words"

// Mamba is a state-space mixer: mamba, mamba-2, or a gated delta network. The
// sequence is walked in Python where no special kernel is installed.
type Mamba struct {
	in, x, z, dt, out      *Linear
	conv, convBias         *parameter
	a, skip, dtBias        *parameter
	norm                   *norm
	h, inner, state_, rank int64
	kernel, heads, groups  int64
	keys                   int64
	Second, Delta          bool
	chunk                  int64 // tokens that mamba-2 works out together
}

func (x *Mamba) Linears() []*Linear { return present(x.in, x.x, x.z, x.dt, x.out) }

// Mixer is the first layer's that has one, nil without.
func (m *Model) Mixer() *Mamba {
	for _, b := range m.Blocks {
		if x, ok := b.Mixer.(*Mamba); ok {
			return x
		}
	}
	return nil
}

// State is what decoding keeps per sequence: the recurrent state and the
// convolution's last inputs.
func (x *Mamba) State(batch, width int64) int64 {
	channels := x.inner
	switch {
	case x.Second:
		channels += 2 * x.groups * x.state_
	case x.Delta:
		channels += 2 * x.keys
	}
	return batch * (x.inner*x.state_*max(width, 4) + channels*x.kernel*width)
}

// forward keeps what the code at hand keeps: mamba's sequential walk, mamba-2's chunks or what its
// kernels save, and for delta networks what their fused kernels save.
func (x *Mamba) forward(m *Machine, in *value, s shape) *value {
	switch {
	case x.Delta:
	case !x.Second:
		return x.sequential(m, in, s)
	case !m.Modes.MixerKernels && s.queries > 1:
		return x.chunked(m, in, s)
	}
	t := in.N / x.h
	p := m.apply(in, x.in)
	kept := t * (2*x.inner + 4*x.groups)
	if x.Delta {
		kept = t * (4*(2*x.keys+x.inner) + 8*x.inner + 12*x.heads)
	}
	var extra []*value
	for _, l := range []*Linear{x.z, x.x, x.dt} {
		if l == nil {
			continue
		}
		src := in
		if l.In != x.h {
			src = &value{Mem: p.Mem, N: t * l.In, Width: p.Width}
		}
		extra = append(extra, m.apply(src, l))
	}
	y := m.Tensor(t*x.inner, m.Narrow(p.Width))
	buf := m.Alloc(kept, words.Temporary)
	back := p.Bytes()
	m.Record([]*value{y}, append([]*value{p}, extra...), []*storage{buf, p.Mem}, func(g []*storage) []*storage {
		r := []*storage{m.Alloc(back, words.Temporary)}
		for _, v := range extra {
			r = append(r, m.Alloc(v.Bytes(), words.Temporary))
		}
		for _, w := range []*parameter{x.conv, x.convBias, x.a, x.skip, x.dtBias} {
			if w != nil && w.Trainable && m.Held[w] == nil {
				m.Held[w] = m.Alloc(w.Val.Bytes(), words.Gradients)
			}
		}
		return r
	})
	m.Release(buf)
	m.Drop(extra...)
	m.Drop(p)
	return m.into(y, x.norm, x.out)
}
