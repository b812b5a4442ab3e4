package names

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/evidence/labels"
	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// TestHoldersOfSeveralLooks: what a variable holds at the dump and held at looks before is one; a variable
// comes before objects that refer to each other, and what the dump says before what a look said.
func TestHoldersOfSeveralLooks(t *testing.T) {
	recording := recorder.Simulate(recorder.Program{Seed: 3, Events: 300, Depth: 2, Capacity: 1 << 30}).Recording
	s, err := snapshot.Decode(bytes.NewReader(recording.Dump(recorder.Style{Protocol: 4, Era: recorder.V2_15})), snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.Devices[0].Ordinal = 1
	tl := timeline.New(s, &s.Devices[0])
	type ids = []timeline.AllocationID
	var live ids
	for id := range timeline.AllocationID(tl.Len() - 1) {
		if tl.FreeRequested[id] == timeline.Never {
			live = append(live, id)
		}
	}
	now, before := int64(tl.Len()), int64(tl.Len()-1) // allocations made by two looks
	a, b, c, gone := tl.Address(live[0]), tl.Address(live[1]), tl.Address(live[2]), uint64(1)
	for _, x := range []struct {
		name string
		said []labels.Holder
		want []Holder
	}{
		{"grew", []labels.Holder{
			{Path: "f().xs", Device: 1, Allocations: now, Tensors: []uint64{a, b}, Graph: []uint64{c}},
			{Path: "f().x", Device: 1, Allocations: now, Tensors: []uint64{b}},
			{Path: "f().xs", Device: 1, Allocations: before, Tensors: []uint64{a}},
		}, []Holder{{"f().xs", ids{live[0], live[1]}, ids{live[2]}, false, true, 0, 0, nil}}},
		{"one element, then several", []labels.Holder{
			{Path: "f().xs[*].y", Device: 1, Allocations: now, Tensors: []uint64{a, b}},
			{Path: "f().xs[0].y", Device: 1, Allocations: before, Tensors: []uint64{a}},
			{Path: "f().zs[3]", Device: 1, Allocations: before, Tensors: []uint64{c}},
		}, []Holder{{"f().xs[*].y", ids{live[0], live[1]}, nil, false, true, 0, 0, nil}, {"f().zs[3]", ids{live[2]}, nil, false, false, 0, 0, nil}}},
		{"one key, then many", []labels.Holder{
			{Path: "f().by", Device: 1, Allocations: now, Tensors: []uint64{a, b}},
			{Path: "f().by['x']", Device: 1, Allocations: before, Tensors: []uint64{a}},
			{Path: "f().of['x']", Device: 1, Allocations: before, Tensors: []uint64{c}},
		}, []Holder{{"f().by", ids{live[0], live[1]}, nil, false, true, 0, 0, nil}, {"f().of['x']", ids{live[2]}, nil, false, false, 0, 0, nil}}},
		{"with a bound", []labels.Holder{
			{Path: "x", Device: 1, Allocations: before, Tensors: []uint64{a}, Bound: 256, Elements: 1},
			{Path: "x", Device: 1, Allocations: -1, Tensors: []uint64{a, b}, Bound: 256, Elements: 2},
		}, []Holder{{"x", ids{live[0], live[1]}, nil, false, true, 256, 2, nil}}},
		{"as many as before", []labels.Holder{
			{Path: "x", Device: 1, Allocations: -1, Tensors: []uint64{b}},
			{Path: "x", Device: 1, Allocations: now, Tensors: []uint64{a, c}},
			{Path: "x", Device: 1, Allocations: before, Tensors: []uint64{a}},
		}, []Holder{{"x", ids{live[1], live[0], live[2]}, nil, false, false, 0, 0, nil}}},
		{"a variable before a cycle", []labels.Holder{
			{Path: "Node.x", Device: 1, Allocations: -1, Tensors: []uint64{a, b}, Cycle: true},
			{Path: "f().nodes[*].x", Device: 1, Allocations: now, Tensors: []uint64{a}},
		}, []Holder{{"f().nodes[*].x", ids{live[0]}, nil, false, false, 0, 0, nil}, {"Node.x", ids{live[1]}, nil, true, false, 0, 0, nil}}},
		{"elsewhere", []labels.Holder{
			{Path: "x", Device: 0, Allocations: -1, Tensors: []uint64{a}},
			{Path: "y", Device: 1, Allocations: -1, Tensors: []uint64{gone}},
		}, []Holder{}},
	} {
		if got := HoldersOf(tl, x.said); !reflect.DeepEqual(got, x.want) && len(got)+len(x.want) > 0 {
			t.Errorf("%s: %+v, want %+v", x.name, got, x.want)
		}
	}
}

// TestApart: what variables hold, but for parts of weights, where labels name some.
func TestApart(t *testing.T) {
	type ids = []timeline.AllocationID
	holders := []Holder{{Path: "main().cache", Tensors: ids{1, 2}, Graph: ids{3}}, {Path: "main().model.layers.0.weight.quant_state.absmax", Tensors: ids{4}},
		{Path: "main.trainer.model.layers.0.weight_list", Tensors: ids{5}}}
	weight := meaning.Label{Category: meaning.Weights, Name: "Net.layers.0.weight"}
	for _, x := range []struct {
		name  string
		given []meaning.Label
		want  ids
	}{
		{"no labels", nil, nil},
		{"of gradients alone", []meaning.Label{{Category: meaning.Gradients, Name: "layers.0.weight.grad"}}, nil},
		{"of weights", []meaning.Label{weight}, ids{1, 2, 5}},
	} {
		if got := Apart(holders, x.given); !reflect.DeepEqual(got, x.want) {
			t.Errorf("%s: %v, want %v", x.name, got, x.want)
		}
	}
}
