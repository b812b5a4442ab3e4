package network

import (
	"slices"

	"github.com/vramscope/vramscope/internal/words"
)

// Linear is a weight [out, in] and perhaps a bias.
type Linear struct {
	layer
	adapter *adapter // LoRA, nil without
	// pairs of layers that are part of the model itself, whose results are added (zamba2).
	pairs [][2]*Linear
	// separate adds the bias in an operation of its own, in the wider type.
	separate bool
}

// normKind says in which types a normalisation works and what it keeps.
type normKind int

const (
	layerNormKind       normKind = iota
	rmsNormKind                  // llama: float32 inside, the weight times the narrow result
	rmsWideKind                  // gemma, olmo2: the weight is applied in float32
	rmsT5Kind                    // t5: only the statistic is float32, the input is kept as it is
	layerNormWideKind            // olmo: a layer norm in float32, without weights
	cohereNormKind               // a layer norm written out in float32
	layerNormNarrowKind          // nemotron: a layer norm, under autocast in 16 bits
	layerScaleKind               // no norm: a part's result times a weight for each channel
)

type norm struct {
	kind    normKind
	size    int64
	weight  *parameter
	bias    *parameter
	plusOne bool // the weight is stored minus one
}

// inSteps says whether the framework's norm keeps a float32 result: litgpt's is written so, and torchtune's asks for a kernel
// of float32 numbers and a 16-bit weight that isn't there.
func (n *norm) inSteps(m *Machine, x *value) bool {
	return m.Modes.WideNorms || m.Modes.NarrowNorms && x.Width == 2 && n.weight.Val.Width == 2
}

// forward is the norm of x, or x where a family has none there.
func (n *norm) forward(m *Machine, x *value) *value {
	if n == nil {
		return m.Again(x)
	}
	if m.Compiled || (m.Modes.FusedNorms || m.liger()) && n.kind == rmsNormKind {
		return n.oneKernel(m, x)
	}
	switch n.kind {
	case layerScaleKind:
		return m.Mul(x, n.weight.Val)
	case rmsNormKind:
		if n.inSteps(m, x) {
			return n.rmsWide(m, x)
		}
		return n.rms(m, x)
	case rmsWideKind:
		return n.rmsWide(m, x)
	case rmsT5Kind:
		return n.rmsT5(m, x)
	case cohereNormKind:
		return n.cohere(m, x)
	case layerNormNarrowKind:
		in, mixed := m.Cast(x, m.Narrow(x.Width)), m.Mixed
		m.Mixed = false
		y := n.layer(m, in)
		m.Mixed = mixed
		return m.Replace(in, y)
	case layerNormWideKind:
		y := m.Cast(x, 4)
		return m.into(m.Replace(y, n.layer(m, y)), x.Width)
	default:
		return n.layer(m, x)
	}
}

// layer is native_layer_norm.
func (n *norm) layer(m *Machine, x *value) *value {
	return m.Normalised(x, n.size, x.N/n.size, n.weight, n.bias)
}

// oneKernel is a norm of one kernel, which keeps its input, and a statistic for each row.
func (n *norm) oneKernel(m *Machine, x *value) *value {
	in := m.Again(x)
	rows := in.N / n.size
	stat := m.Alloc(4*rows, words.Temporary)
	e := in.Width
	if m.Compiled { // the cast for what comes next is part of it
		e = m.Narrow(e)
	}
	y := m.Tensor(in.N, e)
	y.Fused = m.Compiled
	b, size := in.Bytes(), n.size
	ins := []*value{in}
	for _, q := range []*parameter{n.weight, n.bias} {
		if q != nil {
			ins = append(ins, q.Val)
		}
	}
	kept := in.Mem
	if in.Remade {
		kept = nil
	}
	m.Record([]*value{y}, ins, []*storage{kept, stat}, func(g []*storage) []*storage {
		r := make([]*storage, len(ins))
		switch {
		case !in.NeedsGrad():
		case m.liger(): // in the place of the output's
			r[0] = m.Keep(g[0])
		default:
			r[0] = m.Alloc(b, words.Temporary)
		}
		for i := 1; i < len(ins); i++ {
			r[i] = m.AllocIf(ins[i].NeedsGrad(), size*m.Wide, words.Gradients)
		}
		return r
	})
	m.Release(stat)
	m.Drop(in)
	return y
}

// liger says whether Liger's kernels run, which write gradients over what they are made of.
func (m *Machine) liger() bool { return m.Modes.Liger && !m.Compiled }

func (n *norm) rms(m *Machine, x *value) *value {
	f := m.Cast(x, 4)
	y := m.into(f, multiplies{m.Inverse(f, x.N/n.size)})
	z := m.of(y, x.Width, times{n.weight.Val})
	m.Drop(y)
	return z
}

func (n *norm) rmsWide(m *Machine, x *value) *value {
	f := m.Cast(x, 4)
	r := m.Inverse(f, x.N/n.size)
	y := m.Mul(f, r)
	if n.weight == nil {
		m.Drop(r, f)
		return m.into(y, x.Width)
	}
	w := m.Cast(n.weight.Val, 4)
	if n.plusOne {
		w = m.into(w, m.Shift)
	}
	z := m.into(y, multiplies{w})
	m.Drop(r, f)
	return m.into(z, x.Width)
}

func (n *norm) rmsT5(m *Machine, x *value) *value {
	f := m.Cast(x, 4)
	r := m.Replace(f, m.Inverse(f, x.N/n.size))
	c := m.of(x, times{r}, n.weight.Val.Width)
	m.Drop(r)
	return m.into(c, times{n.weight.Val})
}

func (n *norm) cohere(m *Machine, x *value) *value {
	f := m.Cast(x, 4)
	c := m.Gather(f, f.N) // the mean's gradient is one more full tensor
	r := m.Replace(c, m.Inverse(c, x.N/n.size))
	c = m.Gather(f, f.N)
	y := m.into(c, multiplies{r})
	m.Drop(f)
	return m.into(y, multiplies{m.Cast(n.weight.Val, 4)}, x.Width)
}

// forward rotates x by position; of a part, that is joined with the rest in a new tensor laid out by head.
func (r rotary) forward(m *Machine, x *value, tables ...*storage) *value {
	if m.Compiled {
		return m.Made(x, x.N, m.Narrow(x.Width), words.Temporary, tables...)
	}
	if m.liger() && r.kind == ropeFull {
		y := m.Again(x)
		m.Record([]*value{y}, []*value{x}, nil, m.Alias)
		return y
	}
	part := x.N
	if r.kind == ropePartial {
		part = x.N * r.dim / r.of
	}
	e := max(x.Width, m.Wide)
	if r.kind == ropeWide {
		e = 4
	}
	a := m.Alloc(part*e, words.Temporary)
	rot := m.Amid(part*x.Width, words.Temporary, part/2*x.Width)
	b := m.Alloc(part*e, words.Temporary)
	m.Release(rot)
	sum := m.Alloc(part*e, words.Temporary)
	m.Release(a)
	m.Release(b)
	y := &value{Mem: sum, N: x.N, Width: e}
	if r.kind == ropePartial {
		y.Mem = m.Alloc(x.N*e, words.Temporary)
		y.ByHead = true
		m.Release(sum)
	}
	if r.kind == ropeWide && x.Width != 4 {
		y.Mem, y.Width = m.Alloc(x.N*x.Width, words.Temporary), x.Width
		m.Release(sum)
	}
	whole, want := x.N*e, x.Bytes()
	m.Record([]*value{y}, []*value{x}, tables, func(g []*storage) []*storage {
		sin := m.Alloc(part*e, words.Temporary)
		s := m.Amid(part*e, words.Temporary, part/2*e) // beside what is negated
		m.Pulse(part*e, words.Temporary)
		m.Release(sin)
		m.Pulse(part*e, words.Temporary) // the cosines'
		if whole != part*e {             // slices of a partial rotation: padded to the whole and added
			s = m.Fit(s, whole, words.Temporary)
			m.Pulse(whole, words.Temporary)
		}
		return []*storage{m.Fit(s, want, words.Temporary)}
	})
	return y
}

// both rotates queries and keys, each of which is replaced.
func (r rotary) both(m *Machine, q, k *value, positions int64) (rq, rk *value) {
	if m.Modes.ComplexRotary && r.kind == ropeFull && !m.Compiled { // pairs as complex numbers
		fq, fk := m.Cast(q, 4), m.Cast(k, 4)
		rq, rk = m.of(fq, m.Scale, q.Width), m.of(fk, m.Scale, k.Width)
		m.Drop(fq, fk, q, k)
		return rq, rk
	}
	tables := r.tables(m, positions)
	rq = r.forward(m, q, tables...)
	if r.spread > 1 {
		m.ReleaseAll(tables)
		tables = r.tables(m, positions)
	}
	rk = r.forward(m, k, tables...)
	m.ReleaseAll(tables)
	m.Drop(q, k)
	return rq, rk
}

type ropeKind int

const (
	ropeNone ropeKind = iota
	ropeFull
	ropePartial
	ropeWide // rotated in float32 and cast back (cohere)
)

type rotary struct {
	kind ropeKind
	dim  int64 // rotated part of a head
	of   int64 // head
	// spread: each layer repeats the numbers of its tables for pairs of neighbours:
	// 1, once for both q and k; 2, for each of them.
	spread int
}

// tables are cos and sin as a layer repeats them; none where it doesn't.
func (r rotary) tables(m *Machine, positions int64) []*storage {
	if r.spread == 0 {
		return nil
	}
	e := m.Wide
	switch {
	case r.spread > 1: // gptj: as q and k
		e = m.Width
	case r.kind == ropeWide:
		e = 4
	}
	return []*storage{m.Alloc(positions*r.dim*e, words.Temporary), m.Alloc(positions*r.dim*e, words.Temporary)}
}

// activation is an MLP's nonlinearity.
type activation int

const (
	actSilu      activation = iota // one kernel, keeps its input
	actGelu                        // one kernel, keeps its input
	actGeluNew                     // written out in Python: keeps four tensors
	actRelu                        // keeps its output
	actQuickGelu                   // x * sigmoid(1.702 x)
	actBloomGelu                   // written out in Python, forward and backward
	actReluSquared
	actTanh
	actXielu // written out in Python
)

func (m *Machine) activate(x *value, a activation) *value {
	switch {
	case a == actRelu, a == actTanh:
		return m.Unary(x, false, true)
	case m.Compiled: // one kernel, which keeps its input
		return m.fusedActivation(x)
	case a == actQuickGelu:
		return m.of(x, multiplies{m.of(x, m.Scale, byOutput)})
	case a == actReluSquared:
		return m.of(x, byOutput, m.Power)
	case a == actGeluNew:
		half := m.Scale(x) // 0.5 x (1 + tanh(c (x + 0.044715 x^3))) as Python evaluates it
		return m.into(half, multiplies{m.of(x, adds{m.of(x, m.Power, m.Scale)}, m.Scale, byOutput, m.Shift)})
	case a == actXielu:
		return xielu(m, x)
	case a == actBloomGelu:
		return bloomGelu(m, x)
	default:
		return m.Unary(x, true, false)
	}
}

// fusedActivation keeps its input, and makes its gradient in the place of the result's.
func (m *Machine) fusedActivation(x *value) *value {
	y := m.Tensor(x.N, x.Width)
	y.Remade = true
	m.Record([]*value{y}, []*value{x}, []*storage{x.Mem}, m.Alias)
	return y
}

// xielu is x > 0 ? p x x + b x : (expm1(min(x, e)) - x) n + b x, as Python evaluates it: both sides for all of x.
func xielu(m *Machine, x *value) *value {
	where := m.Alloc(x.N, words.Temporary) // a byte each
	up := m.Scale(x)                       // p x, which the product with x keeps
	up = m.into(up, multiplies{m.Again(x)}, adds{m.Scale(x)})
	low := m.of(x, byInput, byOutput) // min and expm1
	low = m.into(low, plus{x})
	low = m.into(low, byInput, adds{m.Scale(x)}) // times a number that is trained: kept
	y := m.Tensor(x.N, x.Width)
	b := y.Bytes()
	m.Record([]*value{y}, []*value{up, low}, []*storage{where}, func(g []*storage) []*storage {
		return []*storage{m.Alloc(b, words.Temporary), m.Alloc(b, words.Temporary)}
	})
	m.Release(where)
	m.Drop(up, low)
	return y
}

// bloomGelu keeps its input alone; four parts stand beside it forward, and five backward.
func bloomGelu(m *Machine, x *value) *value {
	b := x.Bytes()
	m.Pulse(4*b, words.Temporary)
	y := m.Tensor(x.N, x.Width)
	m.Record([]*value{y}, []*value{x}, []*storage{x.Mem}, func(g []*storage) []*storage {
		m.Pulse(5*b, words.Temporary)
		return []*storage{m.Alloc(b, words.Temporary)}
	})
	return y
}

// FeedForward turns the stream into what is added to it.
type FeedForward interface {
	forward(m *Machine, x *value) *value
	Linears() []*Linear
}

// mlp is gate, up and down, without gate where it is nil; fused, gate and up are halves of one projection.
type mlp struct {
	gate, up, down *Linear
	fused          bool
	sparse         bool // only what is large of the gate's counts (gemma3n)
	act            activation
	inner, drop    float64 // dropout after the activation, after down
}

// fusedProduct is act(a) * b in one kernel: it keeps both, and makes both gradients at once, Liger's in their places.
func (m *Machine) fusedProduct(a, b *value) *value {
	y := m.Tensor(a.N, a.Width)
	y.Fused = true
	ab, bb := a.Bytes(), b.Bytes()
	if m.Modes.ByRow { // two reductions read the gradient, in float32
		ab = 4 * a.N
	}
	as, bs := a.Mem, b.Mem
	m.Record([]*value{y}, []*value{a, b}, []*storage{as, bs}, func(g []*storage) []*storage {
		if m.liger() || m.Modes.FusesAdapters {
			return []*storage{m.Keep(as), m.Keep(bs)}
		}
		return []*storage{m.Alloc(ab, words.Temporary), m.Alloc(bb, words.Temporary)}
	})
	return y
}

func (f *mlp) Linears() []*Linear { return present(f.gate, f.up, f.down) }

// present are those layers that a family has.
func present(ls ...*Linear) []*Linear {
	return slices.DeleteFunc(ls, func(l *Linear) bool { return l == nil })
}

func (f *mlp) forward(m *Machine, x *value) *value {
	var y *value
	switch {
	case f.fused:
		gu := m.apply(x, f.up)
		p := m.Split(gu, gu.N/2, gu.N/2)
		a := m.activate(p[0], f.act)
		y = m.Mul(p[1], a)
		m.Drop(a, p[0], p[1], gu)
	case m.fusesAdapters(f.gate, f.up, f.down): // what goes into down is made again in backward
		a, u := m.apply(x, f.gate), m.apply(x, f.up)
		y = m.fusedProduct(a, u)
		m.Drop(a, u)
		return m.into(m.Replace(y, m.plain(y, f.down)), m.inPlace(f.down.adapter, nil), f.drop)
	case f.gate != nil:
		a := m.apply(x, f.gate)
		if f.sparse {
			a = m.into(a, func(a *value) *value { // what is larger than most of a row, and a number for each
				return m.of(a, adds{m.Gather(a, max(a.N/1024, 1), a.Mem)}, byOutput)
			})
		}
		if m.Compiled || m.liger() {
			u := m.apply(x, f.up)
			y = m.fusedProduct(a, u)
			m.Drop(a, u)
			break
		}
		a = m.into(a, f.act)
		y = m.into(a, multiplies{m.apply(x, f.up)})
	default:
		y = m.of(x, f.up, f.act)
	}
	y = m.into(y, f.inner)
	return m.into(m.Replace(y, m.of(y, f.down, m.ScatterTokens)), f.drop)
}
