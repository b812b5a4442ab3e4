package budget

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/budget/modelfile"
)

// adapter is what is trained beside a layer: LoRA's pair of matrices, or (IA)3's vector.
type adapter struct {
	a, b *linear
	wide bool // kept in float32 though the model is narrow

	magnitude *parameter // DoRA's, nil without
	vector    *parameter // (IA)3's, nil without
	scalesIn  bool       // the vector scales what goes into the layer, not what comes out
}

// apply is a linear layer with whatever adapter stands on it, or x where there is no layer.
func (m *machine) apply(x *value, l *linear) *value {
	if l == nil {
		return m.Again(x)
	}
	a := l.adapter
	switch {
	case l.pairs != nil:
		only := *l
		only.pairs = nil
		y := m.apply(x, &only)
		z := m.apply(x, l.pairs[0][0])
		z = m.Replace(z, m.apply(z, l.pairs[0][1]))
		defer m.Drop(z)
		return m.Replace(y, m.Add(y, z))
	case a == nil:
		return m.plain(x, l)
	case a.vector != nil && a.scalesIn:
		in := m.Cast(x, a.vector.Val.Width)
		in = m.Replace(in, m.rescaled(in, a.vector, x.Width))
		return m.Replace(in, m.plain(in, l))
	case a.vector != nil:
		y := m.plain(x, l)
		return m.Replace(y, m.rescaled(y, a.vector, y.Width))
	}
	y := m.plain(x, l)
	wide := m.Again(x)
	if a.wide {
		wide = m.Replace(wide, m.Cast(wide, 4))
	}
	in := m.Replace(wide, m.dropped(wide))
	var q *value
	if a.magnitude != nil {
		q = m.weighted(in, y, l)
	} else {
		q = m.lowRank(in, a)
		if l.Weight.Packed { // PEFT's layers for bitsandbytes add it in the layer's type
			q = m.Replace(q, m.Cast(q, y.Width))
		}
	}
	s := m.Add(y, q)
	m.Drop(in, q, y)
	return m.Replace(s, m.Cast(s, y.Width))
}

// plain is a linear layer without its adapter.
func (m *machine) plain(x *value, l *linear) *value {
	if !l.separate || l.Bias == nil {
		y := m.linear(x, l)
		if l.Weight.Packed { // bitsandbytes gives its input's type back
			y = m.Replace(y, m.Cast(y, x.Width))
		}
		return y
	}
	bare := *l
	bare.Bias = nil
	y := m.linear(x, &bare)
	return m.Replace(y, m.AddBias(y, l.Bias.Val))
}

// lowRank is both matrices of LoRA, one after the other, and their scale.
func (m *machine) lowRank(x *value, a *adapter) *value {
	p := m.linear(x, a.a)
	q := m.Replace(p, m.linear(p, a.b))
	return m.Replace(q, m.Scale(q))
}

// adapted is a weight of many experts with what its adapter adds to all of it, as PEFT has it for bare
// parameters (tuners/lora/layer.py, _LoraFactorsProxy): both matrices in the weight's type, and their
// product added by one baddbmm.
func (m *machine) adapted(q *parameter, a *adapter) *value {
	if a == nil {
		return m.Again(q.Val)
	}
	e := q.Val.Width
	left, right := m.Cast(a.b.Weight.Val, e), m.Cast(a.a.Weight.Val, e)
	y := m.Tensor(q.Val.N, e)
	lb, rb := left.Bytes(), right.Bytes()
	m.Record([]*value{y}, []*value{left, right}, []*storage{left.Mem, right.Mem}, func(g []*storage) []*storage {
		return []*storage{m.Amid(lb, Temporary, lb), m.Amid(rb, Temporary, rb)} // a product, and that scaled
	})
	m.Drop(left, right)
	return y
}

// rescaled is x times a vector, and then of width e.
func (m *machine) rescaled(x *value, v *parameter, e int64) *value {
	y := m.Mul(x, v.Val)
	return m.Replace(y, m.Cast(y, e))
}

// weighted is DoRA as PEFT has it (tuners/lora/dora.py): the norm of every row of the
// weight with its update, worked out from a product of the adapters with an identity,
// scales both results. With dropout the layer's product is made again, of what is left.
func (m *machine) weighted(x, y *value, l *linear) *value {
	a, e := l.adapter, x.Width
	narrow := m.Narrow(4)
	if !a.wide {
		narrow = e
	}
	identity := m.Alloc(l.In*l.In*a.a.Weight.Val.Width, Temporary)
	names := []*storage{identity}
	if narrow != a.a.Weight.Val.Width { // its copy is what the graph holds
		names[0] = m.Alloc(l.In*l.In*narrow, Temporary)
	}
	names = append(names, m.Alloc(l.In*a.a.Out*narrow, Temporary), m.Alloc(l.In*l.Out*narrow, Temporary)) // update
	if names[0] != identity {
		m.Release(identity)
	}
	if narrow != e {
		names = append(names, m.Alloc(l.In*l.Out*e, Temporary))
	}
	weight := l.Weight.Val
	if e != weight.Width || l.Weight.Packed {
		weight = &value{Mem: m.Alloc(l.In*l.Out*e, Temporary), N: l.In * l.Out, Width: e} // in the adapters' type
		names = append(names, weight.Mem)
	}
	scaled := m.Alloc(l.In*l.Out*e, Temporary)
	sum := m.Alloc(l.In*l.Out*e, Temporary)
	m.ReleaseAll([]*storage{scaled, sum})
	scale := m.Tensor(l.Out, e)
	m.Record([]*value{scale}, []*value{a.magnitude.Val}, nil, func(g []*storage) []*storage {
		return []*storage{m.Alloc(l.Out*e, Gradients)}
	})
	q := m.linear(x, a.a)
	q = m.Replace(q, m.linear(q, a.b))
	base := m.Again(y)
	if m.opts.LoRADropout > 0 {
		bare := linear{layer: layer{In: l.In, Out: l.Out, Weight: &parameter{Tensor: l.Weight.Tensor, Val: weight}}}
		base = m.Replace(base, m.linear(x, &bare))
	}
	base = m.Replace(base, m.Mul(base, scale))
	q = m.Replace(q, m.Mul(q, scale))
	q = m.Replace(q, m.Scale(q))
	q = m.Replace(q, m.Add(base, q))
	m.Drop(base, scale)
	m.ReleaseAll(names)
	return q
}

// embedAdapted adds what an adapter on the table of embeddings makes of the same tokens.
func (m *machine) embedAdapted(x *value, a *adapter, t int64, ids *storage) *value {
	if a == nil {
		return m.Again(x)
	}
	table, r := a.a.Weight.Val, a.a.Out
	rows, bytes := table.N/r, table.Bytes()
	p := m.Tensor(t*r, table.Width)
	m.Record([]*value{p}, []*value{table}, []*storage{ids}, func(g []*storage) []*storage {
		turned := m.Alloc(bytes, Temporary)
		if t > 3072 { // the sorted kernel
			m.Pulse(4*r*(t/10+min(t, rows)), Temporary)
		}
		defer m.Release(turned) // a gradient that lies otherwise than its parameter is copied
		return []*storage{m.Alloc(bytes, Gradients)}
	})
	q := m.Replace(p, m.linear(p, a.b))
	q = m.Replace(q, m.Scale(q))
	y := m.Replace(q, m.Add(x, q))
	return m.Replace(y, m.Cast(y, x.Width))
}

// addAdapters freezes the model, but for modules that are trained in full, and hangs
// adapters on the layers that the setting names.
// A layer is named in several ways, and each name that is none is refused.
func (p *plan) addAdapters() error {
	if !p.adapts() {
		return nil
	}
	mod := p.model
	for _, q := range mod.params {
		q.Trainable = false
	}
	if err := p.trainModules(); err != nil {
		return err
	}
	t := &targets{wanted: p.targets(), found: map[string]bool{}, names: map[string]bool{}}
	t.hangOnEnds(p)
	blocks := mod.blocks
	for _, e := range []*model{mod.encoder, mod.vision} {
		if e != nil {
			blocks = append(append([]*block{}, e.blocks...), blocks...)
		}
	}
	for _, b := range blocks {
		if err := t.hangOnBlock(p, b); err != nil {
			return err
		}
	}
	for _, name := range t.wanted { // PEFT would train on without it, which is seldom what was meant
		if !t.found[name] && !p.someOfThem() {
			return fmt.Errorf("--lora-targets: %q is none of this model's layers, which are %s", short(name),
				strings.Join(slices.Sorted(maps.Keys(t.names)), " "))
		}
	}
	if len(p.adapters) == 0 {
		return fmt.Errorf("--lora-targets %s names none of this model's linear layers", short(p.LoRATargets))
	}
	return nil
}

// targets are the layers that get adapters.
type targets struct {
	wanted       []string // nil: all in the blocks
	found, names map[string]bool
}

// named says whether a layer is one by its name.
func (t *targets) named(path string) bool {
	t.names[lastName(path)] = true
	return t.match(path)
}

// match compares names as PEFT does.
func (t *targets) match(path string) (hit bool) {
	for _, name := range t.wanted {
		if strings.HasSuffix("."+path, "."+name) {
			hit, t.found[name] = true, true
		}
	}
	return hit
}

// hangOnEnds puts adapters on the head and the embeddings, which have to be named.
func (t *targets) hangOnEnds(p *plan) {
	if h := p.model.head; h != nil && t.named(headName) {
		p.hang(h, nil)
	}
	if e := p.model.embed; e != nil {
		if path := modulePath(e); p.Adapter == "ia3" {
			t.names[lastName(path)] = true
		} else if t.named(path) {
			p.model.embedAdapter = p.pair(e, e.Shape[0], e.Shape[1], nil)
		}
	}
}

// hangOnBlock puts adapters on a block's layers.
func (t *targets) hangOnBlock(p *plan, b *block) error {
	b.adapters = nil
	ls := b.linears()
	x, routed := b.ff.(*experts)
	if routed && x.sharedGate != nil {
		ls = append(ls, x.sharedGate)
	}
	for _, l := range ls {
		if t.named(modulePath(l.Weight)) || t.wanted == nil {
			p.hang(l, b)
		}
	}
	if routed {
		if err := t.hangOnExperts(p, x, b); err != nil {
			return err
		}
	}
	for _, q := range b.params { // autograd goes through the whole flat tensor
		q.Joined = len(b.adapters) > 0 && p.OneUnit && p.flatUnits()
	}
	return nil
}

// hangOnExperts puts adapters on a router and on the weights of many experts that are named, the latter with
// matrices for every expert.
func (t *targets) hangOnExperts(p *plan, x *experts, b *block) error {
	old := p.linearExperts()
	refused := p.bareExpertsOnly()
	if p.Adapter == "ia3" || t.wanted == nil && refused {
		return nil
	}
	for i, w := range []struct {
		q *parameter
		a **adapter
	}{{x.router.Weight, &x.routerLoRA}, {x.gateUp, &x.upLoRA}, {x.down, &x.downLoRA}} {
		path, n, k := modulePath(w.q), int64(0), int64(1)
		in, out := w.q.Shape[len(w.q.Shape)-1], w.q.Shape[len(w.q.Shape)-2]
		if i > 0 {
			if k = w.q.Shape[0]; x.oss {
				in, out = out, in
			}
			if t.named(path) {
				n = 1
			}
		}
		for _, name := range old[i] {
			if t.wanted == nil || t.match(path[:strings.LastIndexByte(path, '.')+1]+name) {
				n++
			}
		}
		switch {
		case n == 0:
		case refused:
			return fmt.Errorf("--lora-targets %s: PEFT has no DoRA or dropout on experts, and packed ones weren't recorded",
				short(p.LoRATargets))
		default:
			*w.a = p.pairOf(w.q, n*k*p.LoRA, in, out, b)
		}
	}
	return nil
}

// bareExpertsOnly says whether adapters are such that experts can't have them.
func (p *plan) bareExpertsOnly() bool {
	return p.Adapter == "dora" || p.LoRADropout > 0 || p.frozenPacked()
}

// linearExperts are what routers, and experts' projections, were called when they were linear layers:
// PEFT takes these names, as it takes all-linear, for the tensors that Transformers 5 makes of them, with a rank for each
// (utils/transformers_weight_conversion.py). It leaves linear layers of such names out then; families with these aren't here.
func (p *plan) linearExperts() [][]string {
	switch {
	case p.profile.bareExperts || p.model.config == nil:
		return make([][]string, 3)
	case slices.Contains([]string{"mixtral", "minimax", "minimax_m2"}, p.model.config.Type):
		return [][]string{{"gate"}, {"w1", "w3"}, {"w2"}}
	case slices.Contains([]string{"qwen3_moe", "olmoe", "flex_olmo"}, p.model.config.Type):
		return [][]string{{"gate"}, {"gate_proj", "up_proj"}, {"down_proj"}}
	}
	return make([][]string, 3)
}

// modulePath is the module that a parameter is of, as far as its name tells.
func modulePath(q *parameter) string {
	return strings.TrimSuffix(strings.TrimSuffix(q.Name, ".weight"), ".bias")
}

func lastName(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// hang puts an adapter on a layer of a block, or of none.
func (p *plan) hang(l *linear, b *block) {
	if p.Adapter != "ia3" {
		l.adapter = p.pair(l.Weight, l.In, l.Out, b)
		return
	}
	in := l.Weight.Role == RoleMLP || l.Weight.Role == RoleExpert
	size := l.Out
	if in {
		size = l.In
	}
	l.adapter = &adapter{vector: p.beside(l.Weight, b, size), scalesIn: in}
}

// pair makes LoRA's two matrices for a layer, the first of which LoRA-FA freezes.
func (p *plan) pair(q *parameter, in, out int64, b *block) *adapter {
	a := p.pairOf(q, p.LoRA, in, out, b)
	a.a.Weight.Trainable = p.Adapter != "lora-fa"
	if p.Adapter == "dora" {
		a.magnitude = p.beside(q, b, out)
	}
	return a
}

func (p *plan) pairOf(q *parameter, rank, in, out int64, b *block) *adapter {
	return &adapter{a: &linear{layer: layer{In: in, Out: rank, Weight: p.beside(q, b, rank, in)}},
		b: &linear{layer: layer{In: rank, Out: out, Weight: p.beside(q, b, out, rank)}}, wide: p.wideAdapters()}
}

// beside makes a trained parameter of an adapter.
func (p *plan) beside(of *parameter, b *block, shape ...int64) *parameter {
	q := &parameter{Tensor: modelfile.Tensor{Name: of.Name, Shape: shape, Role: of.Role}, Trainable: true, Adapter: true,
		Outside: b == nil}
	p.adapters = append(p.adapters, q)
	if b != nil {
		b.adapters = append(b.adapters, q)
	}
	return q
}

// trainModules trains copies of the modules that are to be saved with the adapters: the
// originals stay (peft/utils/other.py, ModulesToSaveWrapper). A head that was tied to the
// embeddings gets a weight of its own.
func (p *plan) trainModules() error {
	mod := p.model
	for _, t := range names(p.SaveModules) {
		if t == headName && mod.head != nil && mod.tied {
			own := *mod.head.Weight
			own.Role, own.Trainable = RoleHead, true
			mod.head.Weight, mod.tied = &own, false
			mod.params = append(mod.params, &own)
			continue
		}
		some := false
		for _, q := range mod.params {
			if isHead := mod.head != nil && q == mod.head.Weight; strings.Contains("."+modulePath(q)+".", "."+t+".") ||
				isHead && t == headName {
				q.Trainable, q.Copied, some = true, true, true
			}
		}
		if !some {
			return fmt.Errorf("--modules-to-save: %q is none of this model's modules", short(t))
		}
	}
	return nil
}

// headName is what the head is called in --lora-targets, whatever a family calls it.
const headName = "lm_head"

// queriesAndValues are what families call the layers that "qv" means.
var queriesAndValues = []string{"q_proj", "v_proj", "query", "value", "query_proj", "value_proj", "q", "v", "q_lin", "v_lin",
	"c_attn", "query_key_value", "qkv_proj", "Wqkv", "to_q", "to_v"}

// keysValuesAndDown are those that (IA)3 scales unless it is told others (peft/utils/constants.py).
var keysValuesAndDown = []string{"k_proj", "v_proj", "down_proj", "key", "value", "k", "v", "wo", "output.dense", "c_attn",
	"mlp.c_proj", "query_key_value", "dense_4h_to_h", "fc2", "w2"}

// someOfThem says whether the targets are what families call some layers, of which a model has a few.
func (p *plan) someOfThem() bool {
	return p.profile.fabric || p.LoRATargets == "qv" || p.LoRATargets == "all" && p.Adapter == "ia3"
}

// targets are the names of the layers that get an adapter, nil for all in the blocks.
func (p *plan) targets() []string {
	switch {
	case p.LoRATargets == "all" && p.Adapter == "ia3":
		return keysValuesAndDown
	case p.LoRATargets == "all" && p.model.unet != nil:
		return unetTargets
	case p.LoRATargets == "all":
		return nil
	case p.LoRATargets == "qv":
		return queriesAndValues
	}
	ts := names(p.LoRATargets)
	if p.profile.fabric {
		for _, t := range slices.Clone(ts) {
			ts = append(ts, sameRole[t]...)
		}
	}
	return ts
}

// sameRole is what families call the layers that litgpt names by their role.
var sameRole = map[string][]string{"q_proj": {"query_key_value", "qkv_proj"}, "k_proj": {"query_key_value", "qkv_proj"},
	"v_proj": {"query_key_value", "qkv_proj"}, "o_proj": {"dense"}, "gate_proj": {"gate_up_proj", "dense_h_to_4h", "fc1"},
	"up_proj": {"gate_up_proj", "dense_h_to_4h", "fc1"}, "down_proj": {"dense_4h_to_h", "fc2"}}

// names are those of a list with commas.
func names(list string) []string {
	ts := []string{} // an empty list names none
	for _, t := range strings.Split(list, ",") {
		if t = strings.TrimSpace(t); t != "" {
			ts = append(ts, t)
		}
	}
	return ts
}

// applyWhole is a layer whose inputs are divided over the ranks, with the sum over them.
func (m *machine) applyWhole(x *value, l *linear) *value {
	y := m.apply(x, l)
	return m.Replace(y, m.ScatterTokens(y))
}
