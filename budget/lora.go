package budget

import (
	"fmt"
	"slices"
	"strings"
)

// adapter is a LoRA pair on a linear layer.
type adapter struct {
	a, b *linear
	wide bool // kept in float32 though the model is narrow
}

// apply is a linear layer with whatever adapter stands on it.
func (m *machine) apply(x *value, l *linear) *value {
	var y *value
	if l.separate && l.bias != nil {
		plain := *l
		plain.bias = nil
		y = m.linear(x, &plain)
		y = m.replace(y, m.addBias(y, l.bias.val))
	} else {
		y = m.linear(x, l)
	}
	if l.adapter == nil {
		return y
	}
	in := m.dropout(x, m.opts.LoRADropout)
	if l.adapter.wide && !m.mixed {
		in = m.replace(in, m.cast(in, 4))
	}
	p := m.linear(in, l.adapter.a)
	m.drop(in)
	q := m.linear(p, l.adapter.b)
	m.drop(p)
	q = m.replace(q, m.scale(q))
	s := m.add(y, q)
	m.drop(q, y)
	if s.e > x.e && !m.mixed {
		s = m.replace(s, m.cast(s, x.e))
	}
	return s
}

// addBias is y + bias in the wider of the two types.
func (m *machine) addBias(y, b *value) *value {
	z := m.tensor(y.n, max(y.e, b.e))
	rows, yb := y.n/b.n, y.bytes()
	needB := b.needsGrad()
	m.record([]*value{z}, []*value{y, b}, nil, func(m *machine, g []*storage) []*storage {
		r := []*storage{m.keep(g[0]), nil}
		if yb != g[0].bytes {
			m.release(r[0])
			r[0] = m.alloc(yb, Temporary)
		}
		if needB {
			m.pulse(staging(rows, b.n), Temporary)
			r[1] = m.alloc(b.bytes(), Gradients)
		}
		return r
	})
	return z
}

// addLoRA freezes the model and hangs adapters on the linear layers that the
// setting names.
func (p *plan) addLoRA() error {
	if p.LoRA == 0 {
		return nil
	}
	mod := p.model
	for _, q := range mod.params {
		q.trainable = false
	}
	r := p.LoRA
	wide := p.LoRADtype == "fp32" || p.mixed
	hang := func(l *linear) {
		mk := func(in, out int64) *linear {
			q := &parameter{Tensor: Tensor{Name: l.weight.Name, Shape: []int64{out, in}, Role: l.weight.Role}, trainable: true}
			p.adapters = append(p.adapters, q)
			return &linear{in: in, out: out, weight: q}
		}
		l.adapter = &adapter{a: mk(l.in, r), b: mk(r, l.out), wide: wide}
	}
	blocks := mod.blocks
	if mod.encoder != nil {
		blocks = append(append([]*block{}, mod.encoder.blocks...), blocks...)
	}
	for _, b := range blocks {
		for _, l := range b.linears() {
			if p.targets(l.weight) {
				hang(l)
			}
		}
		if x, ok := b.ff.(*experts); ok && p.LoRATargets == "all" && x.sharedGate != nil {
			hang(x.sharedGate)
		}
	}
	if len(p.adapters) == 0 {
		return fmt.Errorf("--lora-targets %s names none of this model's linear layers", short(p.LoRATargets))
	}
	return nil
}

// targets says whether a weight gets an adapter: "all", "qv", or a list of
// the names of its modules.
func (p *plan) targets(w *parameter) bool {
	name := strings.TrimSuffix(w.Name, ".weight")
	last := name[strings.LastIndexByte(name, '.')+1:]
	switch p.LoRATargets {
	case "all":
		return true
	case "qv":
		return slices.Contains([]string{"q_proj", "v_proj", "query", "value", "q", "v", "q_lin", "v_lin", "c_attn", "query_key_value", "qkv_proj", "Wqkv"}, last)
	}
	return slices.Contains(strings.Split(p.LoRATargets, ","), last)
}
