package autograd

import "github.com/vramscope/vramscope/internal/words"

// Layer is a weight [out, in] and perhaps a bias.
type Layer struct {
	In, Out int64 // features
	Weight  *Parameter
	Bias    *Parameter // nil without
	Late    bool       // of a feed-forward, the last part of its block
}

// product is one call of a linear layer.
type product struct {
	*productKind
	m        *Machine
	l        *Layer
	in, w, b *Value
	rows     int64
	eight    *eightBits
	saved    [2]*Storage // of the input and of the weight
	column   *Storage    // the input along its other dimension
	regather int64       // bytes of the input that ranks send again for backward
	over     int64       // of a weight's gradient that comes after the kernel that makes its input again
	late     bool        // its weight's gradient waits for that of the embeddings
	node     *Node       // of a compiled product, which lets its input go as soon as the weight's gradient is there
	ins      []*Value
}

// productKind is how a product is worked out: what stands beside its result, and stays for
// backward. A kind that has no backward of its own makes gradients in the weight's type.
type productKind struct {
	is       func(m *Machine, q *Parameter) bool
	beside   func(p *product) []*Storage
	keeps    func(p *product)
	weight   func(p *product) *Storage // as the input's gradient takes it; nil: it is saved
	backward func(p *product, needX, needW bool) (dx, dw *Storage)
}

// products are all kinds; the first one that it is counts.
var products = []productKind{
	{ // torchao's, in 8 bits
		is: func(m *Machine, q *Parameter) bool { return q.Eight },
		beside: func(p *product) []*Storage {
			p.eight = p.m.inEightBits(p.in, p.w, p.l)
			return nil
		},
		keeps: func(p *product) {
			p.keepWeight()
			p.eight.keep()
		},
		backward: func(p *product, needX, needW bool) (dx, dw *Storage) {
			dx, dw = p.eight.backward(p.rows, p.l.Out, p.in.Bytes(), p.w.Bytes(), p.m.WeightGrad(p.w), needX, needW)
			p.m.Over = p.m.Alloc(p.over, words.Temporary)
			return dx, dw
		},
	},
	{ // bitsandbytes' in 8 bits, which keeps its input on the graph
		is:     func(m *Machine, q *Parameter) bool { return q.Packed && m.Pass.Mixed8 },
		beside: func(p *product) []*Storage { return p.m.mixedInt8(p.rows, p.l.In, p.l.Out) },
		keeps: func(p *product) {
			again, graph := p.m.Replay.Until > 0, !p.m.Replay.Discard || !p.m.Pass.NoGraph
			if p.in.NeedsGrad() && (!again && graph || p.m.Pass.Hoards) {
				p.hoard()
				p.m.Become(p.in.Mem, words.Activations)
			}
		},
		weight: (*product).unpacked,
	},
	{ // of weights that are unpacked for it
		is: func(m *Machine, q *Parameter) bool { return q.Packed },
		keeps: func(p *product) {
			if p.in.NeedsGrad() && p.m.Pass.Hoards {
				p.hoard()
			}
		},
		weight: (*product).unpacked,
	},
	{is: func(*Machine, *Parameter) bool { return true }, keeps: (*product).keepWeight},
}

// Product is F.linear: x of some rows times [out, in], with or without a bias.
// With a bias the product is one addmm with a fused epilogue.
// What is saved, and what is made in backward, depends on what needs gradients.
func (m *Machine) Product(x *Value, l *Layer) *Value {
	p := &product{m: m, l: l, in: m.Cast(x, m.Narrow(x.Width)), w: m.Weight(l.Weight), rows: x.N / l.In}
	for i := range products {
		if p.productKind = &products[i]; p.is(m, l.Weight) {
			break
		}
	}
	workspace := m.Cublas
	if l.Bias != nil {
		p.b = m.Weight(l.Bias)
	}
	var beside []*Storage
	if p.beside != nil {
		beside = p.beside(p)
	}
	y := m.Kept(p.rows*l.Out, p.w.Width, true)
	m.ReleaseAll(beside)
	if p.b != nil || p.eight != nil {
		workspace = m.Cublas1
	}
	m.Pulse(workspace, words.Workspace)
	p.saveInput()
	p.keeps(p)
	p.record(y)
	m.Drop(p.in, p.w, p.b)
	m.Release(p.column)
	return y
}

// saveInput keeps the input for the weight's gradient.
func (p *product) saveInput() {
	m, x := p.m, p.eight
	if p.in.Fused && m.Replay.Until > 0 && (x == nil || x.scaled) {
		p.over = max(p.in.Bytes()-p.w.Bytes(), 0)
	}
	switch {
	case !p.w.NeedsGrad(), x != nil && x.compiled && !x.wide: // made again in backward, of what the operation before has kept
	case x != nil && x.scaled && m.Compiled && p.in.Fused:
		p.column = x.column(p.in.Mem)
		p.saved[0] = p.column
	case p.in.part != nil:
		p.saved[0], p.regather = p.in.part, p.in.Bytes()
	default:
		p.saved[0] = p.in.Mem
	}
}

// keepWeight keeps the weight for the input's gradient.
func (p *product) keepWeight() {
	if p.in.NeedsGrad() && !p.m.Loose {
		p.saved[1] = p.w.Mem
	}
}

// hoard keeps the input on the graph, though nothing there needs it.
func (p *product) hoard() { p.m.Hoard = append(p.m.Hoard, p.m.Keep(p.in.Mem)) }

func (p *product) unpacked() *Storage { return p.m.unpacked(p.w.N) }

func (p *product) record(y *Value) {
	m := p.m
	p.ins = []*Value{p.in, p.w}
	p.late = p.w.NeedsGrad() && m.Compiled && !m.Mixed && p.l.Weight == m.Pass.Tied
	if p.late {
		p.ins[1] = &Value{}
	}
	if p.b != nil {
		p.ins = append(p.ins, p.b)
	}
	m.transposed = p.w.Leaf != nil
	needX, needW, needB := p.in.NeedsGrad(), p.w.NeedsGrad(), p.b.NeedsGrad()
	m.Record([]*Value{y}, p.ins, p.saved[:], func(g []*Storage) []*Storage {
		r := make([]*Storage, len(p.ins))
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
				r[2] = m.Alloc(p.l.Out*p.w.Width, m.WeightGrad(p.b))
				m.Pulse(Staging(p.rows, p.l.Out, p.w.Width), words.Temporary)
			}
		}
		return r
	})
	if m.Compiled && p.saved[0] != nil && m.Stash == 0 {
		p.node = y.From
	}
}

func (p *product) inputGradient(need bool) *Storage {
	if !need {
		return nil
	}
	m := p.m
	dx := m.Alloc(p.in.Bytes(), words.Temporary)
	var again *Storage
	if p.weight != nil {
		again = p.weight(p)
	}
	m.Pulse(m.Cublas, words.Workspace)
	m.Release(again)
	return dx
}

// weightGradient of the result's, g.
func (p *product) weightGradient(g *Storage, need bool) *Storage {
	m := p.m
	if p.late { // one product with the embeddings' gradient added to it
		m.late = append(m.late, m.Keep(g), m.Keep(p.in.Mem))
		return nil
	}
	if !need {
		return nil
	}
	m.Pulse(p.regather, words.Communication)
	dw := m.Alloc(p.w.Bytes(), m.WeightGrad(p.w))
	m.Pulse(m.Cublas, words.Workspace)
	m.Over = m.Alloc(p.over, words.Temporary)
	if p.node != nil && len(p.node.Saved) > 0 {
		m.Release(p.node.Saved[0])
		p.node.Saved = p.node.Saved[1:]
	}
	return dw
}

// unpacked is a packed weight of n elements as a product takes it. bitsandbytes has a kernel for
// that; torchao's NF4Tensor, which torchtune has, takes each half of the elements as indices of 64
// bits, looks them up and scales them (nf4_tensor.py, get_original_weight).
func (m *Machine) unpacked(n int64) *Storage {
	if m.Pass.TwoCopies { // Lightning packs float16, which is unpacked and cast
		defer m.Release(m.Alloc(n*m.Width, words.Temporary))
	}
	if !m.Pass.LooksUp || m.Compiled {
		return m.Alloc(n*m.Width, words.Temporary)
	}
	return m.Amid(n*m.Width, words.Temporary, 8*n+2*n*m.Width+Parts(n*m.Width, 64))
}

// mixedInt8 is what bitsandbytes' product in 8 bits takes beside its result (MatMul8bitLt in its
// autograd/_functions.py, backends/cuda/ops.py): its input in float16 and in 8 bits, where outliers
// are looked for, and a result in 32 bits and in float16.
func (m *Machine) mixedInt8(t, in, out int64) []*Storage {
	half := m.Alloc(2*t*in, words.Temporary)
	quantised := m.Alloc(t*in, words.Temporary)
	m.Pulse(3*t*in, words.Temporary)
	m.Release(half)
	beside := []*Storage{quantised, m.Alloc(4*t*out, words.Temporary)}
	return append(beside, m.Alloc(2*t*out, words.Temporary))
}
