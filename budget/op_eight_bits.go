package budget

// eightBits is how torchao makes a product of operands in 8 bits: Float8Linear
// (torchao/float8) with a scale for a tensor, MXFP8Linear (torchao/prototype/moe_training)
// with one for each 32 elements. A layer keeps what it kept in 16 bits; copies in 8 bits are
// made for each product and go with it.
type eightBits struct {
	m        *Machine
	l        *layer
	in, w    int64 // elements of the input and of the weight
	e        int64 // bytes of an element
	gathered bool  // the weight comes in 8 bits already
	scaled   bool  // a scale for each 32 elements, by kernels that nothing is fused with
	compiled bool  // casts are fused, and operands needed twice are made once
	wide     bool  // the weight's gradient is made in 16 bits
	columns  bool  // the input in 8 bits is kept
	forward  []*storage
	saved    *storage // the weight in 8 bits, from forward to backward
}

// inEightBits makes the copies that a product takes: the head stays in 16 bits, as do adapters and what isn't trained.
func (m *Machine) inEightBits(in, w *value, l *layer) *eightBits {
	o := &m.pass
	x := &eightBits{m: m, l: l, in: in.n, w: w.n, e: in.e, compiled: m.compiled && !o.Blocks8, scaled: o.Blocks8,
		gathered: l.weight.eight && o.Gathers8, wide: o.Gradient2}
	x.forward = append(x.forward, x.cast(x.in))
	if !x.gathered {
		x.forward = append(x.forward, x.cast(x.w))
	}
	return x
}

// cast is a copy of n elements. In eager mode its steps stand beside it, as
// float8/float8_utils.py and float8_training_tensor.py take them: absolute values, the whole
// in float32, scaled and clamped. MXFP8 has a kernel.
func (x *eightBits) cast(n int64) *storage {
	if x.scaled {
		return x.m.alloc(n+n/32, Temporary)
	}
	if x.compiled {
		return x.m.alloc(n, Temporary)
	}
	return x.m.eagerCast(n, x.e)
}

func (m *Machine) eagerCast(n, e int64) *storage {
	m.pulse(n*e, Temporary)
	var wide *storage
	if e != 4 {
		wide = m.alloc(4*n, Temporary)
	}
	scaled := m.alloc(4*n, Temporary)
	m.release(wide)
	clamped := m.alloc(4*n, Temporary)
	y := m.alloc(n, Temporary)
	m.release(clamped)
	m.release(scaled)
	return y
}

// column is the input in 8 bits along its other dimension, which backward wants and a compiled
// forward makes, once for all products of it.
func (x *eightBits) column(in *storage) *storage {
	x.columns = true
	if s := in.column; s != nil && s.refs > 0 {
		return x.m.keep(s)
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
	defer m.releaseAll(x.forward)
	switch r := m.replay; {
	case !x.compiled || r.discard || r.dead || !m.grad:
		return
	case r.until > 0 && !x.gathered:
		x.saved = m.keep(x.forward[1])
	case r.until == 0 && x.gathered && x.l.late:
		x.saved = m.alloc(x.w, Temporary)
	default:
		return
	}
	m.become(x.saved, Activations)
}

// backward makes both gradients: of the input, bytes xb, and of the weight, of wb.
func (x *eightBits) backward(t, out, xb, wb int64, wc Category, needX, needW bool) (dx, dw *storage) {
	m := x.m
	var mine []*storage
	cast := func(n int64) *storage {
		s := x.cast(n)
		mine = append(mine, s)
		return s
	}
	again := func(n int64) *storage { // laid out anew, for a kernel that wants rows there and columns here
		if x.compiled || x.scaled {
			return nil
		}
		return m.alloc(n, Temporary)
	}
	cast(t * out)
	w := x.saved
	switch {
	case w != nil:
	case !x.gathered:
		w = x.cast(x.w)
	case x.compiled:
		w = m.alloc(x.w, Temporary)
	}
	if x.compiled && !x.wide {
		cast(x.in)
	}
	if needX {
		turned := again(x.w)
		dx = m.alloc(xb, Temporary)
		m.pulse(m.cublas1, Workspace)
		m.release(turned)
	}
	if x.compiled {
		m.release(w)
	} else if w != nil {
		mine = append(mine, w) // a name of the function's until it returns
	}
	if needW {
		var g, in *storage
		if !x.compiled && !x.wide {
			cast(t * out)
			if !x.columns {
				cast(x.in)
			}
			g, in = again(t*out), again(x.in)
		}
		dw = m.alloc(wb, wc)
		m.pulse(m.cublas1, Workspace)
		m.release(g)
		m.release(in)
	}
	m.releaseAll(mine)
	return dx, dw
}
