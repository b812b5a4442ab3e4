package classify

import (
	"bytes"
	"slices"
	"testing"

	"github.com/vramscope/vramscope/classify/names"
	"github.com/vramscope/vramscope/evidence/labels"
	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// namesOf are the names of a story's allocations, "" for those without.
func namesOf(c *Classification) []string {
	names := make([]string, c.Timeline.Len())
	for id, i := range c.Name {
		names[id] = c.Names[i]
	}
	return names
}

func TestNames(t *testing.T) {
	const elements = 64 * mib / 4
	three := []Tensor{{Name: "embed.weight", Elements: elements, Bytes: 0}, {Name: "layer.0.weight", Elements: elements, Bytes: 0}, {Name: "layer.1.weight", Elements: elements, Bytes: 0}}
	tell := func() *Classification {
		s := newStory(t, true)
		alloc := func(n int, c Category, lines ...string) (made []int) {
			for range n {
				made = append(made, s.alloc(c, 64*mib, lines...))
			}
			return made
		}
		alloc(3, Weights, "train.py:5 main")
		s.loop(2, func(k int) {
			s.in(Backward)
			grads := alloc(3, Gradients)
			s.in(Optimizer)
			alloc(6*(1-k), OptimizerState, "train.py:14 main")
			s.in(ZeroGrad)
			s.free(grads...)
		})
		return s.classified()
	}
	for _, x := range []struct {
		name    string
		tensors []Tensor
		want    map[Category][]string // in the order of the allocations
	}{
		{"as many tensors as weights", three, map[Category][]string{
			Weights:   {"embed.weight", "layer.0.weight", "layer.1.weight"},
			Gradients: {"layer.1.weight.grad", "layer.0.weight.grad", "embed.weight.grad", "layer.1.weight.grad", "layer.0.weight.grad", "embed.weight.grad"},
			OptimizerState: {"embed.weight.exp_avg", "embed.weight.exp_avg_sq", "layer.0.weight.exp_avg", "layer.0.weight.exp_avg_sq",
				"layer.1.weight.exp_avg", "layer.1.weight.exp_avg_sq"},
		}},
		{"more tensors of one size than weights", append(slices.Clone(three), Tensor{Name: "layer.2.weight", Elements: elements, Bytes: 0}), nil},
		{"another model", []Tensor{{Name: "a", Elements: 1000, Bytes: 0}, {Name: "b", Elements: 2000, Bytes: 0}}, nil},
		{"sizes as stored", []Tensor{{Name: "a", Elements: 1, Bytes: 64 * mib}, {Name: "b", Elements: 1, Bytes: 64 * mib}, {Name: "c", Elements: 1, Bytes: 64 * mib}}, map[Category][]string{
			Weights:        {"a", "b", "c"},
			Gradients:      {"a.grad", "b.grad", "c.grad", "a.grad", "b.grad", "c.grad"}, // of one module: its own order
			OptimizerState: {"a.exp_avg", "a.exp_avg_sq", "b.exp_avg", "b.exp_avg_sq", "c.exp_avg", "c.exp_avg_sq"},
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := tell()
			names.Find(c.Result, x.tensors)
			got := map[Category][]string{}
			for id, name := range namesOf(c) {
				if name != "" {
					got[c.Category[id]] = append(got[c.Category[id]], name)
				}
			}
			for category := range Category(NumCategories) {
				if !slices.Equal(got[category], x.want[category]) {
					t.Errorf("%v: %q, want %q", category, got[category], x.want[category])
				}
			}
		})
	}
}

func TestMetadata(t *testing.T) {
	s := newStory(t, true)
	a := s.alloc(Unknown, mib, "a.py:1 f")
	s.note(a, "encoder.layers.0", false)
	b := s.alloc(Unknown, mib, "a.py:2 f")
	s.note(b, `{"fqn": "decoder", "step": 3}`, false)
	d := s.alloc(Unknown, mib, "a.py:3 f")
	gone := s.alloc(Unknown, mib, "a.py:4 f")
	s.free(gone)
	s.note(d, "kv_cache", true)
	s.note(gone, "too late", true)
	c := s.classified()
	categories := names.ReadLabels(c.Result, nil)
	if got, want := namesOf(c), []string{"encoder.layers.0", "decoder", "kv_cache", ""}; !slices.Equal(got, want) {
		t.Errorf("names %q, want %q", got, want)
	}
	if len(categories) != 1 || categories[timeline.AllocationID(d)] != KVCache {
		t.Errorf("categories %v", categories)
	}
}

// twice is a recording in which one address is given out two times.
func twice(t *testing.T) *timeline.Timeline {
	const address = uint64(0x7f0000000000)
	event := func(action string, time int) recorder.Event {
		return recorder.Event{Action: action, Address: address, Size: int64(2 * mib), Stream: uint64(0), TimeUS: int64(time)}
	}
	r := recorder.Recording{
		Segments: []recorder.Segment{{Address: address, Total: int64(2 * mib), Allocated: 2 * mib, Active: 2 * mib, Requested: 2 * mib,
			Blocks: []recorder.Block{{Address: address, Size: int64(2 * mib), Requested: int64(2 * mib), State: "active_allocated"}}}},
		Traces: [][]recorder.Event{{event("segment_alloc", 0), event("alloc", 1), event("free_requested", 2), event("free_completed", 3), event("alloc", 4)}},
	}
	s, err := snapshot.Decode(bytes.NewReader(r.Dump(recorder.Style{Era: recorder.V2_8, Protocol: 4})), snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return timeline.New(s, &s.Devices[0])
}

func TestLabelsOf(t *testing.T) {
	const address = 0x7f0000000000
	tl := twice(t)
	if tl.History != timeline.Complete || tl.Len() != 2 {
		t.Fatalf("history %v, %d allocations", tl.History, tl.Len())
	}
	for _, x := range []struct {
		name  string
		label labels.Label
		want  []Label
	}{
		{"the first", labels.Label{Address: address, Allocations: 1, Category: "weights", Name: "w"}, []Label{{Address: address, Event: 1, Category: Weights, Name: "w"}}},
		{"the second", labels.Label{Address: address, Allocations: 2, Category: "inputs", Name: "x"}, []Label{{Address: address, Event: 4, Category: Inputs, Name: "x"}}},
		{"alive at the dump", labels.Label{Address: address, Allocations: -1, Name: "x"}, []Label{{Address: address, Event: 4, Category: Unknown, Name: "x"}}},
		{"before there was any", labels.Label{Address: address, Allocations: 0, Name: "x"}, nil},
		{"after both", labels.Label{Address: address, Allocations: 9, Category: "inputs", Name: "x"}, []Label{{Address: address, Event: 4, Category: Inputs, Name: "x"}}},
		{"another address", labels.Label{Address: 512, Allocations: -1, Name: "x"}, nil},
	} {
		t.Run(x.name, func(t *testing.T) {
			got := names.LabelsOf(tl, &labels.File{Labels: []labels.Label{x.label}})
			if !slices.Equal(got, x.want) {
				t.Fatalf("%+v, want %+v", got, x.want)
			}
			c := blank(tl)
			categories := names.ReadLabels(c.Result, got)
			for _, l := range got {
				id := tl.Of[l.Event]
				if namesOf(c)[id] != l.Name || categories[id] != l.Category {
					t.Errorf("allocation %d is %q and %v", id, namesOf(c)[id], categories[id])
				}
			}
		})
	}
}
