package search

import (
	"strings"
	"testing"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/gpus"
)

// Trained experts are taken as evenly loaded, and that is said, with what twice the load takes.
func TestExpertLoad(t *testing.T) {
	compute := func(load float64) *budget.Budget {
		t.Helper()
		b, err := budget.Compute(configOf(t, mixtral8x7B), budget.Setting{GPUs: 8, EP: 8, Sequence: 4096, ExpertLoad: load})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	even, twice := compute(1), compute(2)
	if !strings.Contains(strings.Join(even.Notes, "\n"), "spread evenly over the experts: --expert-load") {
		t.Errorf("no note about an even load: %q", even.Notes)
	}
	// What a layer keeps of each token and expert: what goes in, gate and up, their activation, the product, what comes out.
	const share, kept = 2 * 4096, 4096 + 2*14336 + 2*14336 + 4096
	got := twice.Categories[budget.Activations] - even.Categories[budget.Activations]
	if want := int64(32 * share * kept * 2); got < want*9/10 || got > want*11/10 {
		t.Errorf("twice the load takes %d bytes more, want about %d", got, want)
	}
	said, _ := Assumed(configOf(t, mixtral8x7B), even, func(string) bool { return false })
	if !strings.Contains(said, "--expert-load 2 (+") {
		t.Errorf("twice the load isn't named in %q", said)
	}
	if _, err := budget.Compute(configOf(t, mixtral8x7B), budget.Setting{GPUs: 8, EP: 8, ExpertLoad: 9}); err == nil {
		t.Error("more tokens than all were taken")
	}
}

// The fewest GPUs are a multiple of the ranks that the model is divided over,
// and what was solved for fits.
func TestSolveForDividedModels(t *testing.T) {
	for _, tt := range []struct {
		name      string
		s         budget.Setting
		gib       int64
		multiple  int64
		wantRanks int64
	}{
		{"experts", budget.Setting{EP: 8}, 40, 8, 16},
		{"experts and heads", budget.Setting{EP: 4, TP: 2}, 40, 4, 12},
		{"stages", budget.Setting{EP: 2, PP: 2}, 40, 4, 12},
		{"served", budget.Setting{EP: 8, Inference: true}, 24, 8, 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.s
			s.Sequence = 64
			g := gpus.GPU{Name: "test", Capacity: tt.gib * gib}
			n, with, err := Solve(configOf(t, mixtral8x7B), s, "gpus", g)
			if err != nil || n%tt.multiple != 0 || n != tt.wantRanks || with.GPUs != n {
				t.Fatalf("%d GPUs (%+v), %v; want %d", n, with, err, tt.wantRanks)
			}
			b, err := budget.Compute(configOf(t, mixtral8x7B), with)
			if err != nil || !b.Fits(g) {
				t.Errorf("%d GPUs do not fit: %v", n, err)
			}
		})
	}
}
