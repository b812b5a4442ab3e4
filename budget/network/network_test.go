package network_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/budget/autograd"
	"github.com/vramscope/vramscope/budget/modelfile"
	"github.com/vramscope/vramscope/budget/network"
	"github.com/vramscope/vramscope/internal/words"
)

// alone is a step on one GPU that has all weights: nothing is done around a network's parts.
type alone struct{}

func (alone) Layer(_ *network.Block, x *autograd.Value, f func(*autograd.Value) *autograd.Value) *autograd.Value {
	return f(x)
}

func (alone) Once(_ *network.Block, x *autograd.Value, f func(*autograd.Value) *autograd.Value) *autograd.Value {
	return f(x)
}

func (alone) Unit(_ *autograd.Parameter, x *autograd.Value, f func(*autograd.Value) *autograd.Value) *autograd.Value {
	return f(x)
}

func (alone) Table(_ *network.Model, f func() *autograd.Value) *autograd.Value { return f() }

func (alone) Arriving() *autograd.Value { return nil }

func Example() {
	mod, err := network.New(modelfile.New("llama", map[string]any{"model_type": "llama", "hidden_size": 512.0, "vocab_size": 1000.0,
		"num_hidden_layers": 2.0, "num_attention_heads": 8.0, "intermediate_size": 1024.0}), 0, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	m := &network.Machine{Machine: autograd.New(2, 2, autograd.Pass{Batch: 4}), Modes: network.Modes{Sequence: 128}}
	for _, q := range mod.Params { // weights that lie elsewhere
		q.Val = &autograd.Value{Mem: m.Alloc(0, words.Weights), N: q.Elements(), Width: 2, Leaf: q}
	}
	m.Grad = true
	s := network.Step{M: m, Model: mod, Around: alone{}}
	stream := s.Forward(s.Inputs())
	fmt.Println(mod.Counts().Total, "parameters;", stream.N, "elements;", m.Live, "bytes for backward")
	// Output: 6269440 parameters; 262144 elements; 23152640 bytes for backward
}

// TestUnknown: a family that isn't known is refused.
func TestUnknown(t *testing.T) {
	if mod, err := network.New(modelfile.New("nonesuch", nil), 0, nil); err == nil || !strings.Contains(err.Error(), "nonesuch") {
		t.Errorf("%v, %v", mod, err)
	}
}

// TestExperts: adapters hang on a router by the names that are given of it, if there are some.
func TestExperts(t *testing.T) {
	for targets, old := range map[string][3][]string{"q_proj": {}, "gate": {{"gate"}}} {
		mod, err := network.New(modelfile.New("mixtral", map[string]any{"model_type": "mixtral", "hidden_size": 64.0,
			"vocab_size": 100.0, "num_hidden_layers": 1.0, "num_attention_heads": 4.0, "num_key_value_heads": 4.0,
			"intermediate_size": 128.0, "num_local_experts": 4.0, "num_experts_per_tok": 2.0}), 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		made, err := mod.Adapt(network.Adapters{Kind: "lora", Rank: 4, Targets: targets, LinearExperts: old})
		if err != nil || len(made) != 2 {
			t.Errorf("%s: %d, %v", targets, len(made), err)
		}
	}
}
