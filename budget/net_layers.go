package budget

// linear is a weight [out, in] and perhaps a bias.
type linear struct {
	layer
	adapter *adapter // LoRA, nil without
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
func (n *norm) inSteps(m *machine, x *value) bool {
	return m.opts.profile.wideNorms || m.opts.profile.narrowNorms && x.e == 2 && n.weight.val.e == 2
}

// forward is the norm of x, or x where a family has none there.
func (n *norm) forward(m *machine, x *value) *value {
	if n == nil {
		return m.again(x)
	}
	if m.compiled || (m.opts.profile.fusedNorms || m.liger()) && n.kind == rmsNormKind {
		return n.oneKernel(m, x)
	}
	switch n.kind {
	case layerScaleKind:
		return m.mul(x, n.weight.val)
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
		in, mixed := m.cast(x, m.narrow(x.e)), m.mixed
		m.mixed = false
		y := n.layer(m, in)
		m.mixed = mixed
		return m.replace(in, y)
	case layerNormWideKind:
		y := m.cast(x, 4)
		y = m.replace(y, n.layer(m, y))
		return m.replace(y, m.cast(y, x.e))
	default:
		return n.layer(m, x)
	}
}

// layer is native_layer_norm.
func (n *norm) layer(m *machine, x *value) *value {
	return m.normalised(x, n.size, x.n/n.size, n.weight, n.bias)
}

// oneKernel is a norm that one kernel works out, written for it or compiled: it keeps its
// input, which the stream has anyway, and a statistic for each row.
func (n *norm) oneKernel(m *machine, x *value) *value {
	in := m.again(x)
	rows := in.n / n.size
	stat := m.alloc(4*rows, Temporary)
	e := in.e
	if m.compiled { // the cast for what comes next is part of it
		e = m.narrow(e)
	}
	y := m.tensor(in.n, e)
	y.fused = m.compiled
	b, size := in.bytes(), n.size
	ins := []*value{in}
	for _, q := range []*parameter{n.weight, n.bias} {
		if q != nil {
			ins = append(ins, q.val)
		}
	}
	kept := in.st
	if in.remade {
		kept = nil
	}
	m.record([]*value{y}, ins, []*storage{kept, stat}, func(g []*storage) []*storage {
		r := make([]*storage, len(ins))
		switch {
		case !in.needsGrad():
		case m.liger(): // in the place of the output's
			r[0] = m.keep(g[0])
		default:
			r[0] = m.alloc(b, Temporary)
		}
		for i := 1; i < len(ins); i++ {
			if ins[i].needsGrad() {
				r[i] = m.alloc(size*m.wide, Gradients)
			}
		}
		return r
	})
	m.release(stat)
	m.drop(in)
	return y
}

// liger says whether Liger's kernels run, which write gradients over what they are made of.
func (m *machine) liger() bool { return m.opts.Liger && !m.opts.Inference && !m.compiled }

func (n *norm) rms(m *machine, x *value) *value {
	f := m.cast(x, 4)
	r := m.inverse(f, x.n/n.size)
	y := m.mul(f, r)
	m.drop(f, r)
	c := m.cast(y, x.e)
	z := m.mul(c, n.weight.val)
	m.drop(c, y)
	return z
}

func (n *norm) rmsWide(m *machine, x *value) *value {
	f := m.cast(x, 4)
	r := m.inverse(f, x.n/n.size)
	y := m.mul(f, r)
	w := m.cast(n.weight.val, 4)
	if n.plusOne {
		w = m.replace(w, m.shift(w))
	}
	z := m.mul(y, w)
	m.drop(y, w, r, f)
	return m.replace(z, m.cast(z, x.e))
}

func (n *norm) rmsT5(m *machine, x *value) *value {
	f := m.cast(x, 4)
	r := m.replace(f, m.inverse(f, x.n/n.size))
	y := m.mul(x, r)
	c := m.cast(y, n.weight.val.e)
	m.drop(y, r)
	return m.replace(c, m.mul(c, n.weight.val))
}

func (n *norm) cohere(m *machine, x *value) *value {
	f := m.cast(x, 4)
	c := m.centre(f, x.n/n.size)
	r := m.replace(c, m.inverse(c, x.n/n.size))
	c = m.centre(f, x.n/n.size)
	y := m.mul(c, r)
	m.drop(c, r, f)
	w := m.cast(n.weight.val, 4)
	z := m.mul(y, w)
	m.drop(y, w)
	return m.replace(z, m.cast(z, x.e))
}

// forward rotates x by position. Only cos and sin are kept, once per model.
// Partial rotation joins the rotated and the plain part in a new tensor laid
// out by head.
func (r rotary) forward(m *machine, x *value, tables ...*storage) *value {
	if m.compiled {
		y := m.tensor(x.n, m.narrow(x.e))
		m.unaryNode(y, x, Temporary, tables...)
		return y
	}
	if m.liger() && r.kind == ropeFull {
		y := m.again(x)
		m.record([]*value{y}, []*value{x}, nil, m.alias)
		return y
	}
	part := x.n
	if r.kind == ropePartial {
		part = x.n * r.dim / r.of
	}
	e := max(x.e, m.wide)
	if r.kind == ropeWide {
		e = 4
	}
	a := m.alloc(part*e, Temporary)
	rot := m.amid(part*x.e, Temporary, part/2*x.e)
	b := m.alloc(part*e, Temporary)
	m.release(rot)
	sum := m.alloc(part*e, Temporary)
	m.release(a)
	m.release(b)
	y := &value{st: sum, n: x.n, e: e}
	if r.kind == ropePartial {
		y.st = m.alloc(x.n*e, Temporary)
		y.byHead = true
		m.release(sum)
	}
	if r.kind == ropeWide && x.e != 4 {
		y.st, y.e = m.alloc(x.n*x.e, Temporary), x.e
		m.release(sum)
	}
	whole, want := x.n*e, x.bytes()
	m.record([]*value{y}, []*value{x}, tables, func(g []*storage) []*storage {
		sin := m.alloc(part*e, Temporary)
		s := m.amid(part*e, Temporary, part/2*e) // beside what is negated
		m.pulse(part*e, Temporary)
		m.release(sin)
		m.pulse(part*e, Temporary) // the cosines'
		if whole != part*e {       // slices of a partial rotation: padded to the whole and added
			s = m.fit(s, whole, Temporary)
			m.pulse(whole, Temporary)
		}
		return []*storage{m.fit(s, want, Temporary)}
	})
	return y
}

// both rotates queries and keys, each of which is replaced.
func (r rotary) both(m *machine, q, k *value, positions int64) (rq, rk *value) {
	if m.opts.profile.complexRotary && r.kind == ropeFull && !m.compiled { // pairs as complex numbers
		fq, fk := m.cast(q, 4), m.cast(k, 4)
		turned := m.scale(fq)
		rq = m.replace(turned, m.cast(turned, q.e))
		turned = m.scale(fk)
		rk = m.replace(turned, m.cast(turned, k.e))
		m.drop(fq, fk, q, k)
		return rq, rk
	}
	tables := r.tables(m, positions)
	rq = r.forward(m, q, tables...)
	if r.spread > 1 {
		m.releaseAll(tables)
		tables = r.tables(m, positions)
	}
	rk = r.forward(m, k, tables...)
	m.releaseAll(tables)
	m.drop(q, k)
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
func (r rotary) tables(m *machine, positions int64) []*storage {
	if r.spread == 0 {
		return nil
	}
	e := m.wide
	switch {
	case r.spread > 1: // gptj: as q and k
		e = m.width
	case r.kind == ropeWide:
		e = 4
	}
	return []*storage{m.alloc(positions*r.dim*e, Temporary), m.alloc(positions*r.dim*e, Temporary)}
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
)

func (m *machine) activate(x *value, a activation) *value {
	switch {
	case a == actRelu, a == actTanh:
		return m.unary(x, false, true)
	case m.compiled: // one kernel, which keeps its input
		return m.fusedActivation(x)
	case a == actQuickGelu:
		t := m.scale(x)
		t = m.replace(t, m.unary(t, false, true))
		return m.replace(t, m.mul(x, t))
	case a == actReluSquared:
		r := m.unary(x, false, true)
		return m.replace(r, m.power(r))
	case a == actGeluNew:
		return geluNew(m, x)
	case a == actBloomGelu:
		return bloomGelu(m, x)
	default:
		return m.unary(x, true, false)
	}
}

// fusedActivation keeps its input, and makes its gradient in the place of the result's.
func (m *machine) fusedActivation(x *value) *value {
	y := m.tensor(x.n, x.e)
	y.remade = true
	m.record([]*value{y}, []*value{x}, []*storage{x.st}, m.alias)
	return y
}

// geluNew is 0.5 x (1 + tanh(c (x + 0.044715 x^3))) as Python evaluates it.
func geluNew(m *machine, x *value) *value {
	half := m.scale(x)
	t := m.power(x)
	t = m.replace(t, m.scale(t))
	t = m.replace(t, m.add(x, t))
	t = m.replace(t, m.scale(t))
	t = m.replace(t, m.unary(t, false, true))
	t = m.replace(t, m.shift(t))
	y := m.mul(half, t)
	m.drop(half, t)
	return y
}

// bloomGelu keeps its input alone; what it is worked out of stands beside it for a
// while, four parts forward and five backward.
func bloomGelu(m *machine, x *value) *value {
	b := x.bytes()
	m.pulse(4*b, Temporary)
	y := m.tensor(x.n, x.e)
	m.record([]*value{y}, []*value{x}, []*storage{x.st}, func(g []*storage) []*storage {
		m.pulse(5*b, Temporary)
		return []*storage{m.alloc(b, Temporary)}
	})
	return y
}

// feedForward turns the stream into what is added to it.
type feedForward interface {
	forward(m *machine, x *value) *value
	linears() []*linear
}

// mlp is gate, up and down (gate nil: up and down only). With fused set, gate
// and up are one projection whose halves are views.
type mlp struct {
	gate, up, down *linear
	fused          bool
	act            activation
	inner, drop    float64 // dropout after the activation, after down
}

// fusedProduct is act(a) * b in one kernel: it keeps both, and makes both gradients at once, Liger's in their places.
func (m *machine) fusedProduct(a, b *value) *value {
	y := m.tensor(a.n, a.e)
	y.fused = true
	ab, bb := a.bytes(), b.bytes()
	if m.opts.Float8Recipe == "rowwise" { // two reductions read the gradient, in float32
		ab = 4 * a.n
	}
	as, bs := a.st, b.st
	m.record([]*value{y}, []*value{a, b}, []*storage{as, bs}, func(g []*storage) []*storage {
		if m.liger() {
			return []*storage{m.keep(as), m.keep(bs)}
		}
		return []*storage{m.alloc(ab, Temporary), m.alloc(bb, Temporary)}
	})
	return y
}

func (f *mlp) linears() []*linear {
	if f.gate != nil {
		return []*linear{f.gate, f.up, f.down}
	}
	return []*linear{f.up, f.down}
}

func (f *mlp) forward(m *machine, x *value) *value {
	var y *value
	switch {
	case f.fused:
		gu := m.apply(x, f.up)
		p := m.split(gu, gu.n/2, gu.n/2)
		a := m.activate(p[0], f.act)
		y = m.mul(p[1], a)
		m.drop(a, p[0], p[1], gu)
	case f.gate != nil:
		a := m.apply(x, f.gate)
		if m.compiled || m.liger() {
			u := m.apply(x, f.up)
			y = m.fusedProduct(a, u)
			m.drop(a, u)
			break
		}
		a = m.replace(a, m.activate(a, f.act))
		u := m.apply(x, f.up)
		y = m.mul(a, u)
		m.drop(a, u)
	default:
		y = m.apply(x, f.up)
		y = m.replace(y, m.activate(y, f.act))
	}
	y = m.replace(y, m.dropout(y, f.inner))
	z := m.replace(y, m.applyWhole(y, f.down))
	return m.replace(z, m.dropout(z, f.drop))
}
