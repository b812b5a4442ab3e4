package budget

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// adapter is a LoRA pair on a linear layer.
type adapter struct {
	a, b *linear
	wide bool // kept in float32 though the model is narrow

	magnitude *parameter // DoRA's, nil without
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
	p := m.replace(in, m.linear(in, l.adapter.a))
	q := m.replace(p, m.linear(p, l.adapter.b))
	if l.adapter.magnitude != nil {
		y, q = m.weighted(l, y, q)
	} else {
		q = m.replace(q, m.scale(q))
	}
	s := m.add(y, q)
	m.drop(q, y)
	if s.e > x.e && !m.mixed {
		s = m.replace(s, m.cast(s, x.e))
	}
	return s
}

// weighted is DoRA as PEFT has it: the norm of every row of the weight with its update,
// worked out from a product of the adapters with an identity, scales both results.
func (m *machine) weighted(l *linear, y, q *value) (*value, *value) {
	e := q.e
	made := []*storage{m.alloc(l.in*l.in*e, Temporary), m.alloc(l.in*l.out*e, Temporary)} // identity, update
	m.release(made[0])
	if e != m.width || l.weight.packed {
		made = append(made, m.alloc(l.in*l.out*e, Temporary)) // the weight in the adapters' type
	}
	sum := m.alloc(l.in*l.out*e, Temporary)
	m.pulse(l.in*l.out*e, Temporary)
	m.release(sum)
	m.releaseAll(made[1:])
	scale := m.tensor(l.out, e)
	m.record([]*value{scale}, []*value{l.adapter.magnitude.val}, nil, func(m *machine, g []*storage) []*storage {
		return []*storage{m.alloc(l.out*e, Gradients)}
	})
	base := m.mul(y, scale)
	q = m.replace(q, m.mul(q, scale))
	q = m.replace(q, m.scale(q))
	d := m.add(base, q)
	m.drop(base, q, scale)
	return y, d
}

// addBias is y + bias in the wider of the two types.
func (m *machine) addBias(y, b *value) *value {
	z := m.tensor(y.n, max(y.e, b.e))
	rows, yb, ze := y.n/b.n, y.bytes(), z.e
	needB := b.needsGrad()
	m.record([]*value{z}, []*value{y, b}, nil, func(m *machine, g []*storage) []*storage {
		r := []*storage{m.keep(g[0]), nil}
		if yb != g[0].bytes {
			m.release(r[0])
			r[0] = m.alloc(yb, Temporary)
		}
		if needB {
			m.pulse(staging(rows, b.n, ze), Temporary)
			r[1] = m.alloc(b.bytes(), Gradients)
		}
		return r
	})
	return z
}

// addLoRA freezes the model and hangs adapters on the linear layers that the
// setting names.
//
// complexity: a layer is named in several ways, and each name that is none is refused
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
	hang := func(l *linear, b *block) {
		mk := func(shape ...int64) *parameter {
			q := &parameter{Tensor: Tensor{Name: l.weight.Name, Shape: shape, Role: l.weight.Role}, trainable: true,
				outside: b == nil}
			p.adapters = append(p.adapters, q)
			if b != nil {
				b.adapters = append(b.adapters, q)
			}
			return q
		}
		l.adapter = &adapter{a: &linear{in: l.in, out: r, weight: mk(r, l.in)},
			b: &linear{in: r, out: l.out, weight: mk(l.out, r)}, wide: wide}
		if p.DoRA {
			l.adapter.magnitude = mk(l.out)
		}
	}
	blocks := mod.blocks
	for _, e := range []*model{mod.encoder, mod.vision} {
		if e != nil {
			blocks = append(append([]*block{}, e.blocks...), blocks...)
		}
	}
	wanted := p.targets()
	found, names := map[string]bool{}, map[string]bool{}
	if h := mod.head; h != nil {
		names[headName] = true
		if slices.Contains(wanted, headName) {
			found[headName] = true
			hang(h, nil)
		}
	}
	for _, b := range blocks {
		b.adapters = nil
		ls := b.linears()
		if x, ok := b.ff.(*experts); ok && x.sharedGate != nil {
			ls = append(ls, x.sharedGate)
		}
		for _, l := range ls {
			path := strings.TrimSuffix(l.weight.Name, ".weight")
			names[path[strings.LastIndexByte(path, '.')+1:]] = true
			if wanted == nil || isTarget(path, wanted, found) {
				hang(l, b)
			}
		}
	}
	for _, t := range wanted { // PEFT would train on without it, which is seldom what was meant
		if !found[t] && p.LoRATargets != "qv" {
			return fmt.Errorf("--lora-targets: %q is none of this model's linear layers, which are %s", short(t),
				strings.Join(slices.Sorted(maps.Keys(names)), " "))
		}
	}
	if len(p.adapters) == 0 {
		return fmt.Errorf("--lora-targets %s names none of this model's linear layers", short(p.LoRATargets))
	}
	return nil
}

// headName is what the head is called in --lora-targets, whatever a family calls it.
const headName = "lm_head"

// isTarget tells a layer that is wanted, as PEFT matches names, and notes by which.
func isTarget(path string, wanted []string, found map[string]bool) (hit bool) {
	for _, t := range wanted {
		if strings.HasSuffix("."+path, "."+t) {
			hit, found[t] = true, true
		}
	}
	return hit
}

// queriesAndValues are what families call the layers that "qv" means.
var queriesAndValues = []string{"q_proj", "v_proj", "query", "value", "query_proj", "value_proj", "q", "v", "q_lin", "v_lin",
	"c_attn", "query_key_value", "qkv_proj", "Wqkv"}

// targets are the names of the layers that get an adapter, nil for all.
func (p *plan) targets() []string {
	switch p.LoRATargets {
	case "all":
		return nil
	case "qv":
		return queriesAndValues
	}
	ts := []string{} // an empty list names none
	for _, t := range strings.Split(p.LoRATargets, ",") {
		if t = strings.TrimSpace(t); t != "" {
			ts = append(ts, t)
		}
	}
	return ts
}
