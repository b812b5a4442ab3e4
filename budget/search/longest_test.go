package search

import (
	"testing"

	"github.com/vramscope/vramscope/budget"
)

// TestLongest: on several GPUs sequences are divided over them; each plan leaves spare what measurements are off by, not much
// more, and a way that trains less in full stands there only where it goes further.
func TestLongest(t *testing.T) {
	c, err := budget.FromParams(8_000_000_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		s     budget.Setting
		gpu   string
		first string
		cp    int64
	}{
		{budget.Setting{GPUs: 8}, "H100 80GB", "full training", 8},
		{budget.Setting{GPUs: 8, Framework: "megatron"}, "H100 80GB", "full training", 2},
		{budget.Setting{GPUs: 1}, "H100 80GB", "8-bit optimizer state", 1},
		{budget.Setting{GPUs: 1}, "RTX 4090 24GB", "adapters", 1},
		{budget.Setting{GPUs: 2, LoRA: 16}, "RTX 4090 24GB", "adapters", 2},
	} {
		g := gpuOf(t, tt.gpu)
		plans, err := Longest(c, tt.s, g, []string{"bf16-mixed", "bf16"})
		if err != nil || len(plans) == 0 {
			t.Errorf("%+v: %d plans, %v", tt.s, len(plans), err)
			continue
		}
		if p := plans[0]; p.Way != tt.first || p.Setting.CP != tt.cp {
			t.Errorf("%+v: %s with cp %d: %s", tt.s, p.Way, p.Setting.CP, p.Flags)
		}
		for i, p := range plans {
			if i > 0 && p.Sequence <= plans[i-1].Sequence {
				t.Errorf("%+v: %s has %d tokens, %s before it %d", tt.s, p.Way, p.Sequence, plans[i-1].Way, plans[i-1].Sequence)
			}
			b, err := budget.Compute(c, p.Setting)
			if err != nil {
				t.Fatal(err)
			}
			if b.Verdict(g, budget.Band{}) != budget.Fitting || float64(surelyOf(b, g)) < 0.9*float64(g.Capacity) {
				t.Errorf("%+v: %s is %s, %d of %d: %s", tt.s, p.Way, b.Verdict(g, budget.Band{}), surelyOf(b, g), g.Capacity, p.Flags)
			}
		}
	}
	if _, err := Longest(smallConfig(t, "vit"), budget.Setting{}, gpuOf(t, "24GiB"), []string{"bf16"}); err == nil {
		t.Error("pictures have one length")
	}
}

// TestSpared: beside what fits to the last megabyte stands what leaves spare what measurements are off by.
func TestSpared(t *testing.T) {
	c, err := budget.FromParams(1_000_000_000)
	if err != nil {
		t.Fatal(err)
	}
	g := gpuOf(t, "H100 80GB")
	for _, what := range []string{"seq", "batch"} {
		n, s, err := Solve(c, budget.Setting{Batch: 2, Sequence: 1024}, what, g)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Spared(c, s, what, g)
		if err != nil || m >= n || float64(m) < 0.85*float64(n) {
			t.Errorf("%s: %d with a margin, %d without: %v", what, m, n, err)
		}
		s.Batch = 1
		if what == "seq" {
			s = s.WithSequence(1024)
		}
		one, err := Spared(c, s, what, g)
		if want := map[string]int64{"seq": 1024, "batch": 1}[what]; err != nil || one != want {
			t.Errorf("%s: of a small setting %d, want %d: %v", what, one, want, err)
		}
	}
}
