package classify

import (
	"fmt"
	"testing"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// TestHeldOtherwise: what labels leave out, and a variable holds, is no weight; without labels, or without the
// variable, the guess stands.
func TestHeldOtherwise(t *testing.T) {
	s, err := snapshot.Open("../testdata/recordings/gpt2_fp32_adamw__hf_loop/snapshot_late.pickle.gz", snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tl := timeline.New(s, &s.Devices[0])
	guessed := New(tl, Options{})
	var labels []meaning.Label
	held := timeline.NoAllocation
	for id := range timeline.AllocationID(tl.Older()) {
		switch signal := guessed.Signal[id]; {
		case guessed.Category[id] != Weights || tl.FreeRequested[id] != timeline.Never:
		case held == timeline.NoAllocation && (signal == meaning.ByLife || signal == meaning.BySite || signal == meaning.BySize):
			held = id
		default:
			labels = append(labels, meaning.Label{Address: tl.Address(id), Event: -1, Category: Weights, Name: fmt.Sprint("layer.", id)})
		}
	}
	if held == timeline.NoAllocation || len(labels) == 0 {
		t.Fatal("no weights are guessed")
	}
	holders := []Holder{{Path: "main().cache", Tensors: []timeline.AllocationID{held}}}
	for _, x := range []struct {
		name string
		o    Options
		want Category
	}{
		{"labels and a variable", Options{Labels: labels, Holders: holders}, Unknown},
		{"labels", Options{Labels: labels}, Weights},
		{"a variable", Options{Holders: holders}, Weights},
	} {
		if got := New(tl, x.o).Category[held]; got != x.want {
			t.Errorf("%s: %v, want %v", x.name, got, x.want)
		}
	}
}
