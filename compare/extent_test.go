package compare

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/timeline"
)

// TestForwardWithLoss: what a recording shows of both is compared with the larger of
// the budget's two.
func TestForwardWithLoss(t *testing.T) {
	r := &Result{Document: &budget.Document{Phases: []budget.DocPhase{
		{Phase: "load", PeakBytes: 5},
		{Phase: "forward", PeakBytes: 40, Categories: map[string]int64{"workspace": 32, "optimizer_state": 8}},
		{Phase: "loss", PeakBytes: 12, Categories: map[string]int64{"logits": 12}},
		{Phase: "backward", PeakBytes: 20},
	}}}
	for _, tt := range []struct {
		x     extent
		wants []int64
	}{
		{extent{}, []int64{5, 40, 40, 20}},
		{extent{cold: true}, []int64{5, 32, 32, 20}}, // without the state
	} {
		for i, want := range tt.wants {
			if got, _ := tt.x.phase(r, i); got != want {
				t.Errorf("cold %v: %s: %d, want %d", tt.x.cold, r.Phases[i].Phase, got, want)
			}
		}
	}
	if _, categories := (&extent{}).phase(r, 2); categories["workspace"] != 32 {
		t.Errorf("categories %v are not those of the forward pass", categories)
	}
}

// TestTrainingWithoutSteps: a request that fails amid kept activations shows training,
// though no step of it may be found.
func TestTrainingWithoutSteps(t *testing.T) {
	e := &observed{t: &timeline.Timeline{Of: make([]timeline.AllocationID, 5), OOMs: []timeline.OOM{{Event: 4}}}, c: &classify.Classification{Result: &meaning.Result{}}, training: true}
	x := e.extent()
	if x.first != timeline.NoEvent || x.last != 4 || !strings.Contains(x.note, "out-of-memory error") {
		t.Errorf("%+v", x)
	}
}

// TestMostly: of several categories that have grown by as much, the largest is named.
func TestMostly(t *testing.T) {
	budget := map[string]int64{"weights": 50}
	for want, measured := range map[string]map[string]int64{
		"":                              {"weights": 100, "gradients": 50},
		"most of it is weights":         {"weights": 200, "gradients": 40},
		"most of it is optimizer state": {"weights": 140, "optimizer_state": 110, "logits": 80}, // others have shrunk
	} {
		for range 20 {
			if got := mostly(measured, budget, 100); got != want {
				t.Errorf("%v: %q, want %q", measured, got, want)
			}
		}
	}
}
