package diagnose

import (
	"slices"
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/timeline"
)

// TestCopiesAreNoGraph: what goes in one bulk and is as large as the weights, for
// the most part, are copies of them; in the order in which it came, a module.
func TestCopiesAreNoGraph(t *testing.T) {
	e := examinationOf(t, recorder.Program{Seed: 6, Events: 3000})
	e.t.Device.Events.Stack = nil
	var bulk []timeline.AllocationID
	for id := timeline.AllocationID(e.t.Older()); len(bulk) < 2*bulkLeast; id++ {
		bulk = append(bulk, id)
	}
	var made []int32
	if e.isGraph(bulk, &made) {
		t.Error("a module that leaves the GPU is a graph: its parameters go in the order in which they came")
	}
	slices.Reverse(bulk)
	if !e.isGraph(bulk, &made) {
		t.Fatal("many tensors of several sizes are no graph")
	}
	for _, id := range bulk {
		e.classes.Category[id] = classify.Weights
	}
	e.sizes = nil
	if e.isGraph(bulk, &made) {
		t.Error("copies of weights are a graph")
	}
}
