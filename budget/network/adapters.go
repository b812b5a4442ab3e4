package network

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/budget/modelfile"
)

// Adapters says which adapters a model gets, and where.
type Adapters struct {
	Kind          string      // lora, rslora, dora, lora-fa or ia3
	Rank          int64       // of LoRA's matrices
	Targets       string      // all, qv, or layers by their names, with commas between them
	Modules       string      // those that are trained in full beside them, with commas between them
	ByRole        bool        // layers are named by what they are for, as litgpt does it
	Wide          bool        // kept in float32
	LinearExperts [3][]string // what routers and experts' two projections were called as linear layers
	NoExperts     bool        // no adapter can hang on experts
	Joins         bool        // FSDP has a block's adapters in one flat tensor with its weights
}

// hanger hangs them on one model.
type hanger struct {
	Adapters
	mod  *Model
	made []*parameter
}

// Adapt freezes the model, but for modules that are trained in full, and hangs
// adapters on the layers that are named. It gives their weights.
// A layer is named in several ways, and each name that is none is refused.
func (m *Model) Adapt(how Adapters) ([]*parameter, error) {
	p := &hanger{Adapters: how, mod: m}
	err := p.all()
	return p.made, err
}

func (p *hanger) all() error {
	mod := p.mod
	for _, q := range mod.Params {
		q.Trainable = false
	}
	if err := p.trainModules(); err != nil {
		return err
	}
	t := &targets{wanted: p.wanted(), found: map[string]bool{}, names: map[string]bool{}}
	t.hangOnEnds(p)
	blocks := mod.Blocks
	for _, e := range []*Model{mod.Encoder, mod.Vision} {
		if e != nil {
			blocks = append(append([]*Block{}, e.Blocks...), blocks...)
		}
	}
	for _, b := range blocks {
		if err := t.hangOnBlock(p, b); err != nil {
			return err
		}
	}
	some := p.ByRole || p.Targets == "qv" || p.Targets == "all" && p.Kind == "ia3"
	for _, name := range t.wanted { // PEFT would train on without it, which is seldom what was meant
		if !t.found[name] && !some {
			return fmt.Errorf("--lora-targets: %q is none of this model's layers, which are %s", Short(name),
				strings.Join(slices.Sorted(maps.Keys(t.names)), " "))
		}
	}
	if len(p.made) == 0 {
		return fmt.Errorf("--lora-targets %s names none of this model's linear layers", Short(p.Targets))
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
func (t *targets) hangOnEnds(p *hanger) {
	if h := p.mod.Head; h != nil && t.named(headName) {
		p.hang(h, nil)
	}
	if e := p.mod.Embed; e != nil {
		if path := modulePath(e); p.Kind == "ia3" {
			t.names[lastName(path)] = true
		} else if t.named(path) {
			p.mod.embedAdapter = p.pair(e, e.Shape[0], e.Shape[1], nil)
		}
	}
}

// hangOnBlock puts adapters on a block's layers.
func (t *targets) hangOnBlock(p *hanger, b *Block) error {
	b.Adapters = nil
	ls := b.Linears()
	x, routed := b.FF.(*Experts)
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
	for _, q := range b.Params { // autograd goes through the whole flat tensor
		q.Joined = len(b.Adapters) > 0 && p.Joins
	}
	return nil
}

// hangOnExperts puts adapters on a router and on the weights of many experts that are named, the latter with
// matrices for every expert.
func (t *targets) hangOnExperts(p *hanger, x *Experts, b *Block) error {
	old := p.LinearExperts
	refused := p.NoExperts
	if p.Kind == "ia3" || t.wanted == nil && refused {
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
				Short(p.Targets))
		default:
			*w.a = p.pairOf(w.q, n*k*p.Rank, in, out, b)
		}
	}
	return nil
}

// modulePath is the module that a parameter is of, as far as its name tells.
func modulePath(q *parameter) string {
	return strings.TrimSuffix(strings.TrimSuffix(q.Name, ".weight"), ".bias")
}

func lastName(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// hang puts an adapter on a layer of a block, or of none.
func (p *hanger) hang(l *Linear, b *Block) {
	if p.Kind != "ia3" {
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
func (p *hanger) pair(q *parameter, in, out int64, b *Block) *adapter {
	a := p.pairOf(q, p.Rank, in, out, b)
	a.a.Weight.Trainable = p.Kind != "lora-fa"
	if p.Kind == "dora" {
		a.magnitude = p.beside(q, b, out)
	}
	return a
}

func (p *hanger) pairOf(q *parameter, rank, in, out int64, b *Block) *adapter {
	return &adapter{a: &Linear{layer: layer{In: in, Out: rank, Weight: p.beside(q, b, rank, in)}},
		b: &Linear{layer: layer{In: rank, Out: out, Weight: p.beside(q, b, out, rank)}}, wide: p.Wide}
}

// beside makes a trained parameter of an adapter.
func (p *hanger) beside(of *parameter, b *Block, shape ...int64) *parameter {
	q := &parameter{Tensor: modelfile.Tensor{Name: of.Name, Shape: shape, Role: of.Role}, Trainable: true, Adapter: true,
		Outside: b == nil}
	p.made = append(p.made, q)
	if b != nil {
		b.Adapters = append(b.Adapters, q)
	}
	return q
}

// trainModules trains copies of the modules that are to be saved with the adapters: the
// originals stay (peft/utils/other.py, ModulesToSaveWrapper). A head that was tied to the
// embeddings gets a weight of its own.
func (p *hanger) trainModules() error {
	mod, untied := p.mod, (*parameter)(nil)
	for _, t := range names(p.Modules) {
		if t == headName && mod.Head != nil && mod.Tied {
			own := *mod.Head.Weight
			own.Role, own.Trainable = RoleHead, true
			mod.Head.Weight, mod.Tied = &own, false
			mod.Params, untied = append(mod.Params, &own), &own
			continue
		}
		some := false
		for _, q := range mod.Params {
			isHead, path := mod.Head != nil && q == mod.Head.Weight, "."+modulePath(q)+"."
			if q != untied && strings.Contains(path, "."+t+".") || isHead && t == headName {
				q.Trainable, q.Copied, some = true, true, true
			}
		}
		if !some {
			return fmt.Errorf("--modules-to-save: %q is none of this model's modules", Short(t))
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

// wanted are the names of the layers that get an adapter, nil for all in the blocks.
func (p *hanger) wanted() []string {
	switch {
	case p.Targets == "all" && p.Kind == "ia3":
		return keysValuesAndDown
	case p.Targets == "all" && p.mod.UNet != nil:
		return UNetTargets
	case p.Targets == "all":
		return nil
	case p.Targets == "qv":
		return queriesAndValues
	}
	ts := names(p.Targets)
	if p.ByRole {
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
