package network

import (
	"slices"

	"github.com/vramscope/vramscope/internal/words"
)

// adapter is what is trained beside a layer: LoRA's pair of matrices, or (IA)3's vector.
type adapter struct {
	a, b *Linear
	wide bool // kept in float32 though the model is narrow

	magnitude *parameter // DoRA's, nil without
	vector    *parameter // (IA)3's, nil without
	scalesIn  bool       // the vector scales what goes into the layer, not what comes out
}

// apply is a linear layer with whatever adapter stands on it, or x where there is no layer.
func (m *Machine) apply(x *value, l *Linear) *value {
	if l == nil {
		return m.Again(x)
	}
	a := l.adapter
	switch {
	case l.pairs != nil:
		only := *l
		only.pairs = nil
		y := m.apply(x, &only)
		return m.into(y, adds{m.of(x, l.pairs[0][0], l.pairs[0][1])})
	case a == nil:
		return m.plain(x, l)
	case a.vector != nil && a.scalesIn:
		in := m.of(x, a.vector.Val.Width, times{a.vector.Val}, x.Width)
		return m.Replace(in, m.plain(in, l))
	case a.vector != nil:
		y := m.plain(x, l)
		return m.into(y, times{a.vector.Val}, y.Width)
	}
	y := m.plain(x, l)
	if m.fusesAdapters(l) {
		return m.into(y, m.inPlace(a, x.Mem))
	}
	in := m.of(x, when(a.wide, 4), m.dropped)
	var q *value
	if a.magnitude != nil {
		q = m.weighted(in, y, l)
	} else {
		p := m.linear(in, a.a) // PEFT's layers for bitsandbytes add the result in the layer's type
		q = m.into(m.Replace(p, m.linear(p, a.b)), m.Scale, when(l.Weight.Packed, y.Width))
	}
	s := m.Add(y, q)
	m.Drop(in, q, y)
	return m.Replace(s, m.Cast(s, y.Width))
}

// plain is a linear layer without its adapter.
func (m *Machine) plain(x *value, l *Linear) *value {
	if !l.separate || l.Bias == nil {
		return m.into(m.linear(x, l), when(l.Weight.Packed, x.Width)) // bitsandbytes gives its input's type back
	}
	bare := *l
	bare.Bias = nil
	y := m.linear(x, &bare)
	return m.Replace(y, m.AddBias(y, l.Bias.Val))
}

// fusesAdapters says whether a framework's kernels run layers with their adapters, in the type of the layers.
func (m *Machine) fusesAdapters(ls ...*Linear) bool {
	return m.Modes.FusesAdapters && !slices.ContainsFunc(ls, func(l *Linear) bool {
		return l == nil || l.adapter == nil || l.adapter.a == nil || l.adapter.magnitude != nil || l.pairs != nil
	})
}

// inPlace adds what an adapter makes to the layer's result, where that lies. Its matrices' gradients are made of what is saved.
func (m *Machine) inPlace(a *adapter, saved *storage) func(*value) *value {
	return func(y *value) *value {
		z := &value{Mem: m.Keep(y.Mem), N: y.N, Width: y.Width}
		left, right := a.a.Weight.Val, a.b.Weight.Val
		m.Record([]*value{z}, []*value{y, left, right}, []*storage{saved}, func(g []*storage) []*storage {
			return []*storage{m.Keep(g[0]), m.Alloc(left.Bytes(), words.Gradients), m.Alloc(right.Bytes(), words.Gradients)}
		})
		return z
	}
}

// adapted is a weight of many experts with its adapter, as PEFT has it for bare parameters (tuners/lora/layer.py,
// _LoraFactorsProxy): both matrices in the weight's type, and their product added by one baddbmm.
func (m *Machine) adapted(q *parameter, a *adapter) *value {
	if a == nil {
		return m.Again(q.Val)
	}
	e := q.Val.Width
	left, right := m.Cast(a.b.Weight.Val, e), m.Cast(a.a.Weight.Val, e)
	y := m.Tensor(q.Val.N, e)
	lb, rb := left.Bytes(), right.Bytes()
	m.Record([]*value{y}, []*value{left, right}, []*storage{left.Mem, right.Mem}, func(g []*storage) []*storage {
		return []*storage{m.Amid(lb, words.Temporary, lb), m.Amid(rb, words.Temporary, rb)} // a product, and that scaled
	})
	m.Drop(left, right)
	return y
}

// weighted is DoRA as PEFT has it (tuners/lora/dora.py): norms of the weight's rows with their update, worked out from a product
// of the adapters with an identity, scale both results. With dropout the layer's product is made again, of what is left.
func (m *Machine) weighted(x, y *value, l *Linear) *value {
	a, e := l.adapter, x.Width
	narrow := m.Narrow(4)
	if !a.wide {
		narrow = e
	}
	identity := m.Alloc(l.In*l.In*a.a.Weight.Val.Width, words.Temporary)
	names := []*storage{identity}
	if narrow != a.a.Weight.Val.Width { // its copy is what the graph holds
		names[0] = m.Alloc(l.In*l.In*narrow, words.Temporary)
	}
	names = append(names, m.Alloc(l.In*a.a.Out*narrow, words.Temporary), m.Alloc(l.In*l.Out*narrow, words.Temporary)) // update
	if names[0] != identity {
		m.Release(identity)
	}
	if narrow != e {
		names = append(names, m.Alloc(l.In*l.Out*e, words.Temporary))
	}
	weight := l.Weight.Val
	if e != weight.Width || l.Weight.Packed {
		weight = &value{Mem: m.Alloc(l.In*l.Out*e, words.Temporary), N: l.In * l.Out, Width: e} // in the adapters' type
		names = append(names, weight.Mem)
	}
	scaled := m.Alloc(l.In*l.Out*e, words.Temporary)
	sum := m.Alloc(l.In*l.Out*e, words.Temporary)
	m.ReleaseAll([]*storage{scaled, sum})
	scale := m.Tensor(l.Out, e)
	m.Record([]*value{scale}, []*value{a.magnitude.Val}, nil, func(g []*storage) []*storage {
		return []*storage{m.Alloc(l.Out*e, words.Gradients)}
	})
	p := m.linear(x, a.a)
	q := m.Replace(p, m.linear(p, a.b))
	base := m.Again(y)
	if m.Modes.Dropout > 0 {
		bare := Linear{layer: layer{In: l.In, Out: l.Out, Weight: &parameter{Tensor: l.Weight.Tensor, Val: weight}}}
		base = m.Replace(base, m.linear(x, &bare))
	}
	base = m.into(base, times{scale})
	q = m.into(base, adds{m.into(q, times{scale}, m.Scale)})
	m.Drop(scale)
	m.ReleaseAll(names)
	return q
}

// embedAdapted adds what an adapter on the table of embeddings makes of the same tokens.
func (m *Machine) embedAdapted(x *value, a *adapter, t int64, ids *storage) *value {
	if a == nil {
		return m.Again(x)
	}
	table, r := a.a.Weight.Val, a.a.Out
	rows, bytes := table.N/r, table.Bytes()
	p := m.Tensor(t*r, table.Width)
	m.Record([]*value{p}, []*value{table}, []*storage{ids}, func(g []*storage) []*storage {
		turned := m.Alloc(bytes, words.Temporary)
		if t > 3072 { // the sorted kernel
			m.Pulse(4*r*(t/10+min(t, rows)), words.Temporary)
		}
		defer m.Release(turned) // a gradient that lies otherwise than its parameter is copied
		return []*storage{m.Alloc(bytes, words.Gradients)}
	})
	q := m.into(m.Replace(p, m.linear(p, a.b)), m.Scale)
	return m.of(x, adds{q}, x.Width)
}

// shareDropout drops parts of x once for all adapters of a layer's queries, keys and values, which are one layer of litgpt's
// (LoRAQKVLinear), and gives what ends that.
func (m *Machine) shareDropout(x *value, ls ...*Linear) func() {
	adapted := slices.ContainsFunc(ls, func(l *Linear) bool { return l != nil && l.adapter != nil })
	if !adapted || !m.Modes.SharesDropout || m.Modes.Dropout <= 0 {
		return func() {}
	}
	m.shared = m.Dropout(x, m.Modes.Dropout)
	return func() {
		m.Drop(m.shared)
		m.shared = nil
	}
}

// dropped is an adapter's input after dropout.
func (m *Machine) dropped(x *value) *value {
	if m.shared != nil {
		return m.Again(m.shared)
	}
	return m.Dropout(x, m.Modes.Dropout)
}
