package network

import (
	"github.com/vramscope/vramscope/budget/modelfile"
	"github.com/vramscope/vramscope/internal/words"
)

// kimiFull says whether a layer of Kimi Linear has attention; its files count layers from 1.
func kimiFull(c *modelfile.Config, i int64) bool {
	if len(c.List("layer_types")) == 0 && c.Map("linear_attn_config") != nil {
		return listed(modelfile.New("", c.Map("linear_attn_config")), "full_attn_layers", i+1)
	}
	return layerIs(c, i, i > 0 && i%4 == 0, "full_attention")
}

// kimiDelta is Kimi's delta attention, which forgets in each channel by itself.
type kimiDelta struct {
	q, k, v, o                        *Linear
	conv, dtBias, rate                *parameter
	forgetA, forgetB, b, gateA, gateB *Linear
	norm                              *norm
	heads, d, h, kernel               int64
}

// kimiMixer is that of layers without attention.
func kimiMixer(b *builder, i, h int64) Mixer {
	c := b.c
	if kimiFull(c, i) {
		return nil
	}
	if l := c.Map("linear_attn_config"); l != nil {
		for from, to := range map[string]string{"head_dim": "linear_head_dim", "num_heads": "linear_num_heads",
			"short_conv_kernel_size": "linear_conv_kernel_dim"} {
			if l[from] != nil {
				c = c.With(to, l[from])
			}
		}
	}
	x := &kimiDelta{heads: c.Int("linear_num_heads"), d: c.Int("linear_head_dim"), h: h, kernel: c.Int("linear_conv_kernel_dim")}
	defer func(prefix string) { b.prefix = prefix }(b.prefix)
	b.prefix += "self_attn."
	b.make(parts{to: []any{x}, role: RoleSSM, norm: rmsWideKind, sizes: sizes{"w": x.heads * x.d}}, "q=q_proj:h>w k=k_proj:h>w "+
		"v=v_proj:h>w conv=conv1d.weight:3*w,1,kernel forgetA=forget_gate.f_a_proj:h>d forgetB=forget_gate.f_b_proj:d>w "+
		"dtBias=forget_gate.dt_bias:w rate=forget_gate.A_log:1,1,heads,1 b=b_proj:h>heads gateA=g_a_proj:h>d gateB=g_b_proj:d>w "+
		"norm=o_norm:d o=o_proj:w>h")
	x.norm.plusOne = false
	return x
}

func (x *kimiDelta) Linears() []*Linear {
	return []*Linear{x.q, x.k, x.v, x.o, x.forgetA, x.forgetB, x.b, x.gateA, x.gateB}
}

func (x *kimiDelta) State(batch, width int64) int64 {
	return batch * (x.heads*x.d*x.d*4 + 3*x.heads*x.d*x.kernel*width)
}

// kimiChunk is how many tokens are worked out together.
const kimiChunk = 64

func (x *kimiDelta) forward(m *Machine, in *value, s shape) *value {
	t, w := in.N/x.h, x.heads*x.d
	q, k, v := m.apply(in, x.q), m.apply(in, x.k), m.apply(in, x.v)
	all := m.Cat(q, k, v)
	m.Drop(q, k, v)
	conv := m.Replace(all, (&Mamba{kernel: x.kernel, conv: x.conv}).convolve(m, all, t, s.batch))
	conv = m.into(conv, byInput, in.Width)
	qkv := m.Split(conv, t*w, t*w, t*w)
	g := x.forget(m, in)
	beta := m.of(in, x.b, byOutput)
	var y *value
	if m.Modes.MixerKernels || s.queries == 1 {
		y = x.kernelled(m, qkv, g, beta)
	} else {
		y = x.chunked(m, qkv, g, beta, s)
	}
	m.Drop(conv, g, beta)
	m.Drop(qkv...)
	gate := m.of(in, x.gateA, x.gateB)
	f := m.of(y, 4, x.norm)
	z := m.into(f, multiplies{m.of(gate, 4, byOutput)}, in.Width, x.o)
	m.Drop(y, gate)
	return z
}

// forget is how much of each channel stays, in float32: softplus, written out.
func (x *kimiDelta) forget(m *Machine, in *value) *value {
	f := m.of(in, x.forgetA, x.forgetB)
	wide := m.Cast(f, 4)
	g := m.into(wide, adds{m.Cast(x.dtBias.Val, 4)})
	m.Drop(f)
	mask := m.Alloc(g.N, words.Temporary)
	e := m.of(g, byOutput, m.Shift, byInput)
	soft := m.Tensor(g.N, 4)
	b := g.Bytes()
	m.Record([]*value{soft}, []*value{g, e}, []*storage{mask}, func([]*storage) []*storage {
		return []*storage{m.Alloc(b, words.Temporary), m.Alloc(b, words.Temporary)}
	})
	m.Release(mask)
	m.Drop(e, g)
	return m.into(soft, multiplies{m.of(x.rate.Val, 4, byOutput, m.Scale)})
}

// kernelled is what the kernels of flash-linear-attention keep (fla/ops/kda): what goes in, sums of the gates, and the scores of
// each chunk's tokens with each other before and after they are solved for.
func (x *kimiDelta) kernelled(m *Machine, qkv []*value, g, beta *value) *value {
	n := qkv[0].N
	y := m.Tensor(n, qkv[0].Width)
	kept := []*storage{m.Alloc(4*n, words.Temporary), m.Alloc(2*m.Width*n/x.d*kimiChunk, words.Temporary)} // sums, pairs
	ins := append(append([]*value{}, qkv...), g, beta)
	m.Record([]*value{y}, ins, append([]*storage{qkv[0].Mem, beta.Mem}, kept...), func([]*storage) []*storage {
		states := m.Alloc(n*x.d/kimiChunk*m.Width, words.Temporary)
		r := make([]*storage, len(ins))
		for i, v := range ins {
			r[i] = m.Alloc(v.Bytes(), words.Temporary)
		}
		m.Release(states)
		return r
	})
	m.ReleaseAll(kept)
	return y
}

// inOrder is a tensor with heads in front, in float32.
func inOrder(m *Machine, v *value) *value {
	return m.of(v, m.CopyOf, 4)
}

// chunked is chunk_kimi_delta_attention (modeling_kimi_linear.py) as PyTorch runs it where no kernel is installed.
func (x *kimiDelta) chunked(m *Machine, qkv []*value, g, beta *value, s shape) *value {
	chunks := (s.queries + kimiChunk - 1) / kimiChunk
	tokens := s.batch * chunks * kimiChunk
	n, rows := tokens*x.heads*x.d, tokens*x.heads
	square := rows * kimiChunk // a chunk's tokens with each other
	q, k, v := inOrder(m, qkv[0]), inOrder(m, qkv[1]), inOrder(m, qkv[2])
	b, f := inOrder(m, beta), inOrder(m, g)
	q, k = m.Replace(q, oneLong(m, q, rows)), m.Replace(k, oneLong(m, k, rows))
	q = m.into(m.Replace(q, m.Gather(q, n)), m.Scale)
	k, v = m.Replace(k, m.Gather(k, n)), m.Replace(v, m.Gather(v, n))
	f, b = m.Replace(f, m.Gather(f, n)), m.Replace(b, m.Gather(b, rows))
	vb, kb := m.Mul(v, b), m.Mul(k, b)
	f = m.Replace(f, m.Scale(f)) // sums
	far := m.Tensor(square*x.d, 4)
	small := f.Bytes()
	m.Record([]*value{far}, []*value{f, f}, nil, func([]*storage) []*storage {
		a := m.Alloc(small, words.Temporary)
		return []*storage{a, m.Amid(small, words.Temporary, square*x.d*4)}
	})
	decay := m.into(far, m.Scale, byOutput)
	attn := x.solved(m, m.into(x.pairs(m, kb, k, decay, square), m.Scale, m.Scale))
	attn = m.into(attn, m.Shift)
	value2 := m.Matmul(attn, vb, n)
	e := m.Unary(f, false, true)
	faded := m.Mul(kb, e)
	cum := m.Matmul(attn, faded, n)
	m.Drop(e, faded)
	out := x.walk(m, [5]*value{q, k, value2, f, cum}, decay, s.batch, chunks)
	out = m.into(out, m.CopyOf, qkv[0].Width)
	m.Drop(q, k, v, b, f, vb, kb, decay, attn, value2, cum)
	return out
}

// oneLong divides each head by its length.
func oneLong(m *Machine, v *value, rows int64) *value {
	sq := m.Mul(v, v)
	l := m.into(m.Replace(sq, m.Made(sq, rows, 4, words.Temporary)), byOutput)
	return m.Replace(l, m.Mul(v, l))
}

// pairs are sums over channels of products of two tokens and what is forgotten between them.
func (x *kimiDelta) pairs(m *Machine, a, b, decay *value, square int64) *value {
	y := m.into(outer(m, a, b, square*x.d), times{decay})
	sum := m.Tensor(square, 4)
	m.Record([]*value{sum}, []*value{y}, nil, m.Alias) // spread again, without a copy
	return m.Replace(y, sum)
}

// solved is row after row of the scores, each of those before it: what each is made of stays.
func (x *kimiDelta) solved(m *Machine, attn *value) *value {
	n, square := attn.N/kimiChunk/kimiChunk, attn.Bytes()
	for i := int64(1); i < kimiChunk; i++ {
		row, sub := n*i, n*i*i
		kept := []*storage{m.Alloc(4*row, words.Temporary), m.Alloc(4*sub, words.Temporary)}
		m.Pulse(4*(sub+2*row), words.Temporary)
		z := m.Again(attn)
		m.Record([]*value{z}, []*value{attn}, kept, func([]*storage) []*storage {
			back := m.Alloc(square, words.Temporary)
			m.Pulse(4*2*sub+square, words.Temporary)
			return []*storage{back}
		})
		m.ReleaseAll(kept)
		attn = m.Replace(attn, z)
	}
	return attn
}

// walkSteps bounds how many chunks are followed one by one; those of longer sequences are taken together.
const walkSteps = 16

// walk goes from chunk to chunk: a state that each leaves behind, and its tokens' scores with each other.
func (x *kimiDelta) walk(m *Machine, in [5]*value, decay *value, batch, chunks int64) *value {
	steps := min(chunks, walkSteps)
	all := m.Tensor(batch*x.heads*kimiChunk*x.d*chunks, 4)
	st := m.Tensor(batch*x.heads*x.d*x.d, 4)
	for i := range steps {
		rows := batch * x.heads * (chunks*(i+1)/steps - chunks*i/steps) // of chunks that are taken as one
		per, square := rows*kimiChunk*x.d, rows*kimiChunk*kimiChunk
		var p [5]*value
		for i, v := range in {
			p[i] = pick(m, v, per)
		}
		q, k, v, g, cum := p[0], p[1], p[2], p[3], p[4]
		e := m.Unary(g, false, true)
		qg := m.Mul(q, e)
		inter := m.Matmul(qg, st, per)
		near := pick(m, decay, square*x.d)
		intra := m.into(x.pairs(m, q, k, near, square), m.Scale)
		prime := m.Matmul(cum, st, per)
		fresh := m.Add(v, prime)
		more := m.Matmul(intra, fresh, per)
		sum := m.Add(inter, more)
		z := m.Again(all) // in place, in one chunk's part
		full, part := all.Bytes(), sum.Bytes()
		m.Record([]*value{z}, []*value{all, sum}, nil, func([]*storage) []*storage {
			return []*storage{m.Alloc(full, words.Temporary), m.Alloc(part, words.Temporary)}
		})
		all = m.Replace(all, z)
		last := pick(m, g, rows*x.d)
		le := m.Unary(last, false, true)
		old := m.Mul(st, le)
		left := m.of(g, plus{last}, byOutput)
		kg := m.Mul(k, left)
		gain := m.Matmul(kg, fresh, rows*x.d*x.d)
		st = m.Replace(st, m.Add(old, gain))
		m.Drop(e, qg, inter, near, intra, prime, fresh, more, sum, last, le, old, left, kg, gain)
		m.Drop(p[:]...)
	}
	m.Drop(st)
	return all
}
