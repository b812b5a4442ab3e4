package budget

// layer is a weight [out, in] and perhaps a bias.
type layer struct {
	in, out int64 // features
	weight  *parameter
	bias    *parameter // nil without
	late    bool       // of a feed-forward, the last part of its block
}

// product is one call of a linear layer.
type product struct {
	*productKind
	m        *Machine
	l        *layer
	in, w, b *value
	rows     int64
	eight    *eightBits
	saved    [2]*storage // of the input and of the weight
	column   *storage    // the input along its other dimension
	regather int64       // bytes of the input that ranks send again for backward
	over     int64       // of a weight's gradient that comes after the kernel that makes its input again
	late     bool        // its weight's gradient waits for that of the embeddings
	node     *node       // of a compiled product, which lets its input go as soon as the weight's gradient is there
	ins      []*value
}

// productKind is how a product is worked out: what stands beside its result, and stays for
// backward. A kind that has no backward of its own makes gradients in the weight's type.
type productKind struct {
	is       func(m *Machine, q *parameter) bool
	beside   func(p *product) []*storage
	keeps    func(p *product)
	weight   func(p *product) *storage // as the input's gradient takes it; nil: it is saved
	backward func(p *product, needX, needW bool) (dx, dw *storage)
}

// products are all kinds; the first one that it is counts.
var products = []productKind{
	{ // torchao's, in 8 bits
		is: func(m *Machine, q *parameter) bool { return q.eight },
		beside: func(p *product) []*storage {
			p.eight = p.m.inEightBits(p.in, p.w, p.l)
			return nil
		},
		keeps: func(p *product) {
			p.keepWeight()
			p.eight.keep()
		},
		backward: func(p *product, needX, needW bool) (dx, dw *storage) {
			dx, dw = p.eight.backward(p.rows, p.l.out, p.in.bytes(), p.w.bytes(), p.m.weightGrad(p.w), needX, needW)
			p.m.over = p.m.alloc(p.over, Temporary)
			return dx, dw
		},
	},
	{ // bitsandbytes' in 8 bits, which keeps its input on the graph
		is:     func(m *Machine, q *parameter) bool { return q.packed && m.pass.Mixed8 },
		beside: func(p *product) []*storage { return p.m.mixedInt8(p.rows, p.l.in, p.l.out) },
		keeps: func(p *product) {
			again, graph := p.m.replay.until > 0, !p.m.replay.discard || !p.m.pass.NoGraph
			if p.in.needsGrad() && (!again && graph || p.m.pass.Hoards) {
				p.hoard()
				p.m.become(p.in.st, Activations)
			}
		},
		weight: (*product).unpacked,
	},
	{ // of weights that are unpacked for it
		is: func(m *Machine, q *parameter) bool { return q.packed },
		keeps: func(p *product) {
			if p.in.needsGrad() && p.m.pass.Hoards {
				p.hoard()
			}
		},
		weight: (*product).unpacked,
	},
	{is: func(*Machine, *parameter) bool { return true }, keeps: (*product).keepWeight},
}

// product is F.linear: x of some rows times [out, in], with or without a bias.
// With a bias the product is one addmm with a fused epilogue.
// What is saved, and what is made in backward, depends on what needs gradients.
func (m *Machine) product(x *value, l *layer) *value {
	p := &product{m: m, l: l, in: m.cast(x, m.narrow(x.e)), w: m.weight(l.weight), rows: x.n / l.in}
	for i := range products {
		if p.productKind = &products[i]; p.is(m, l.weight) {
			break
		}
	}
	workspace := m.cublas
	if l.bias != nil {
		p.b = m.weight(l.bias)
	}
	var beside []*storage
	if p.beside != nil {
		beside = p.beside(p)
	}
	y := m.kept(p.rows*l.out, p.w.e, true)
	m.releaseAll(beside)
	if p.b != nil || p.eight != nil {
		workspace = m.cublas1
	}
	m.pulse(workspace, Workspace)
	p.saveInput()
	p.keeps(p)
	p.record(y)
	m.drop(p.in, p.w, p.b)
	m.release(p.column)
	return y
}

// saveInput keeps the input for the weight's gradient.
func (p *product) saveInput() {
	m, x := p.m, p.eight
	if p.in.fused && m.replay.until > 0 && (x == nil || x.scaled) {
		p.over = max(p.in.bytes()-p.w.bytes(), 0)
	}
	switch {
	case !p.w.needsGrad(), x != nil && x.compiled && !x.wide: // made again in backward, of what the operation before has kept
	case x != nil && x.scaled && m.compiled && p.in.fused:
		p.column = x.column(p.in.st)
		p.saved[0] = p.column
	case p.in.part != nil:
		p.saved[0], p.regather = p.in.part, p.in.bytes()
	default:
		p.saved[0] = p.in.st
	}
}

// keepWeight keeps the weight for the input's gradient.
func (p *product) keepWeight() {
	if p.in.needsGrad() && !p.m.loose {
		p.saved[1] = p.w.st
	}
}

// hoard keeps the input on the graph, though nothing there needs it.
func (p *product) hoard() { p.m.hoard = append(p.m.hoard, p.m.keep(p.in.st)) }

func (p *product) unpacked() *storage { return p.m.unpacked(p.w.n) }

func (p *product) record(y *value) {
	m := p.m
	p.ins = []*value{p.in, p.w}
	p.late = p.w.needsGrad() && m.compiled && !m.mixed && p.l.weight == m.pass.Tied
	if p.late {
		p.ins[1] = &value{}
	}
	if p.b != nil {
		p.ins = append(p.ins, p.b)
	}
	m.transposed = p.w.leaf != nil
	needX, needW, needB := p.in.needsGrad(), p.w.needsGrad(), p.b.needsGrad()
	m.record([]*value{y}, p.ins, p.saved[:], func(g []*storage) []*storage {
		r := make([]*storage, len(p.ins))
		switch {
		case p.backward != nil:
			r[0], r[1] = p.backward(p, needX, needW)
		case p.b == nil: // MmBackward: the weight first
			r[1] = p.weightGradient(g[0], needW)
			r[0] = p.inputGradient(needX)
		default: // AddmmBackward: the weight second, then the bias
			r[0] = p.inputGradient(needX)
			r[1] = p.weightGradient(g[0], needW)
			if needB {
				r[2] = m.alloc(p.l.out*p.w.e, m.weightGrad(p.b))
				m.pulse(staging(p.rows, p.l.out, p.w.e), Temporary)
			}
		}
		return r
	})
	if m.compiled && p.saved[0] != nil && m.stash == 0 {
		p.node = y.from
	}
}

func (p *product) inputGradient(need bool) *storage {
	if !need {
		return nil
	}
	m := p.m
	dx := m.alloc(p.in.bytes(), Temporary)
	var again *storage
	if p.weight != nil {
		again = p.weight(p)
	}
	m.pulse(m.cublas, Workspace)
	m.release(again)
	return dx
}

// weightGradient of the result's, g.
func (p *product) weightGradient(g *storage, need bool) *storage {
	m := p.m
	if p.late { // one product with the embeddings' gradient added to it
		m.late = append(m.late, m.keep(g), m.keep(p.in.st))
		return nil
	}
	if !need {
		return nil
	}
	m.pulse(p.regather, Communication)
	dw := m.alloc(p.w.bytes(), m.weightGrad(p.w))
	m.pulse(m.cublas, Workspace)
	m.over = m.alloc(p.over, Temporary)
	if p.node != nil && len(p.node.saved) > 0 {
		m.release(p.node.saved[0])
		p.node.saved = p.node.saved[1:]
	}
	return dw
}

// unpacked is a packed weight of n elements as a product takes it. bitsandbytes has a kernel for
// that; torchao's NF4Tensor, which torchtune has, takes each half of the elements as indices of 64
// bits, looks them up and scales them (nf4_tensor.py, get_original_weight).
func (m *Machine) unpacked(n int64) *storage {
	if m.pass.TwoCopies { // Lightning packs float16, which is unpacked and cast
		defer m.release(m.alloc(n*m.width, Temporary))
	}
	if !m.pass.LooksUp || m.compiled {
		return m.alloc(n*m.width, Temporary)
	}
	return m.amid(n*m.width, Temporary, 8*n+2*n*m.width+parts(n*m.width, 64))
}

// mixedInt8 is what bitsandbytes' product in 8 bits takes beside its result (MatMul8bitLt in its
// autograd/_functions.py, backends/cuda/ops.py): its input in float16 and in 8 bits, where outliers
// are looked for, and a result in 32 bits and in float16.
func (m *Machine) mixedInt8(t, in, out int64) []*storage {
	half := m.alloc(2*t*in, Temporary)
	quantised := m.alloc(t*in, Temporary)
	m.pulse(3*t*in, Temporary)
	m.release(half)
	beside := []*storage{quantised, m.alloc(4*t*out, Temporary)}
	return append(beside, m.alloc(2*t*out, Temporary))
}
