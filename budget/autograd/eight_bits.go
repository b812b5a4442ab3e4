package autograd

import "github.com/vramscope/vramscope/internal/words"

// eightBits is how torchao makes a product of operands in 8 bits: Float8Linear
// (torchao/float8) with a scale for a tensor, MXFP8Linear (torchao/prototype/moe_training)
// with one for each 32 elements. A layer keeps what it kept in 16 bits; copies in 8 bits are
// made for each product and go with it.
type eightBits struct {
	m        *Machine
	l        *Layer
	in, w    int64 // elements of the input and of the weight
	e        int64 // bytes of an element
	gathered bool  // the weight comes in 8 bits already
	scaled   bool  // a scale for each 32 elements, by kernels that nothing is fused with
	compiled bool  // casts are fused, and operands needed twice are made once
	wide     bool  // the weight's gradient is made in 16 bits
	columns  bool  // the input in 8 bits is kept
	forward  []*Storage
	saved    *Storage // the weight in 8 bits, from forward to backward
}

// inEightBits makes the copies that a product takes: the head stays in 16 bits, as do adapters and what isn't trained.
func (m *Machine) inEightBits(in, w *Value, l *Layer) *eightBits {
	o := &m.Pass
	x := &eightBits{m: m, l: l, in: in.N, w: w.N, e: in.Width, compiled: m.Compiled && !o.Blocks8, scaled: o.Blocks8,
		gathered: l.Weight.Eight && o.Gathers8, wide: o.Gradient2}
	x.forward = append(x.forward, x.cast(x.in))
	if !x.gathered {
		x.forward = append(x.forward, x.cast(x.w))
	}
	return x
}

// cast is a copy of n elements. In eager mode its steps stand beside it, as
// float8/float8_utils.py and float8_training_tensor.py take them: absolute values, the whole
// in float32, scaled and clamped. MXFP8 has a kernel.
func (x *eightBits) cast(n int64) *Storage {
	if x.scaled {
		return x.m.Alloc(n+n/32, words.Temporary)
	}
	if x.compiled {
		return x.m.Alloc(n, words.Temporary)
	}
	return x.m.EagerCast(n, x.e)
}

// EagerCast is a copy in 8 bits of n elements of e bytes, step by step.
func (m *Machine) EagerCast(n, e int64) *Storage {
	m.Pulse(n*e, words.Temporary)
	wide := m.AllocIf(e != 4, 4*n, words.Temporary)
	scaled := m.Alloc(4*n, words.Temporary)
	m.Release(wide)
	clamped := m.Alloc(4*n, words.Temporary)
	y := m.Alloc(n, words.Temporary)
	m.Release(clamped)
	m.Release(scaled)
	return y
}

// column is the input in 8 bits along its other dimension, which backward wants and a compiled
// forward makes, once for all products of it.
func (x *eightBits) column(in *Storage) *Storage {
	x.columns = true
	if s := in.column; s != nil && s.Refs > 0 {
		return x.m.Keep(s)
	}
	in.column = x.cast(x.in)
	return in.column
}

// keep saves the weight in 8 bits for a compiled block's backward, and lets the rest of what
// forward took go. A block that is run again for backward makes one copy for both. Else, of its
// inputs, PyTorch 2.15 takes the last ones for results, as many as it has gathered weights, each
// of which comes with a scale: torch/_functorch/partitioners.py has static_lifetime_input_indices
// of before those are two inputs. Of such a weight, which is the feed-forward's, the transposed
// copy that backward wants is saved.
func (x *eightBits) keep() {
	m := x.m
	defer m.ReleaseAll(x.forward)
	switch r := m.Replay; {
	case !x.compiled || r.Discard || m.stopped || !m.Grad:
		return
	case r.Until > 0 && !x.gathered:
		x.saved = m.Keep(x.forward[1])
	case r.Until == 0 && x.gathered && x.l.Late:
		x.saved = m.Alloc(x.w, words.Temporary)
	default:
		return
	}
	m.Become(x.saved, words.Activations)
}

// backward makes both gradients: of the input, bytes xb, and of the weight, of wb.
func (x *eightBits) backward(t, out, xb, wb int64, wc words.Category, needX, needW bool) (dx, dw *Storage) {
	m := x.m
	var mine []*Storage
	cast := func(n int64) *Storage {
		s := x.cast(n)
		mine = append(mine, s)
		return s
	}
	again := func(n int64) *Storage { // copied, as the operation takes rows of one and columns of the other
		if x.compiled || x.scaled {
			return nil
		}
		return m.Alloc(n, words.Temporary)
	}
	cast(t * out)
	w := x.saved
	switch {
	case w != nil:
	case !x.gathered:
		w = x.cast(x.w)
	case x.compiled:
		w = m.Alloc(x.w, words.Temporary)
	}
	if x.compiled && !x.wide {
		cast(x.in)
	}
	if needX {
		turned := again(x.w)
		dx = m.Alloc(xb, words.Temporary)
		m.Pulse(m.Cublas1, words.Workspace)
		m.Release(turned)
	}
	if x.compiled {
		m.Release(w)
	} else if w != nil {
		mine = append(mine, w) // a name of the function's until it returns
	}
	if needW {
		var g, in *Storage
		if !x.compiled && !x.wide {
			cast(t * out)
			if !x.columns {
				cast(x.in)
			}
			g, in = again(t*out), again(x.in)
		}
		dw = m.Alloc(wb, wc)
		m.Pulse(m.Cublas1, words.Workspace)
		m.Release(g)
		m.Release(in)
	}
	m.ReleaseAll(mine)
	return dx, dw
}
