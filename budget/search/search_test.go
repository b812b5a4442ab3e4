package search

import (
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/gpus"
)

// Every plan fits, the best of each way is first, and a model too large to train in full is
// given the lightest way that fits. Among them are what guides to memory promise.
func TestPlans(t *testing.T) {
	h100 := gpus.GPU{Name: "H100", Capacity: 79 * gib, Context: 614 * mib}
	for _, tt := range []struct {
		name string
		c    map[string]any
		s    budget.Setting
		g    gpus.GPU
		want string // in the best plan's flags
		n    int    // of plans
	}{
		{"7B on 24 GB", with(llama8B, "vocab_size", 32000.0), budget.Setting{Optimizer: "adamw-fused"}, gpus.GPU{Name: "24", Capacity: 23 * gib, Context: 460 * mib}, "--offload optimizer --optimizer-in-backward", 4},
		{"8B on 8", llama8B, budget.Setting{Optimizer: "adamw-fused", GPUs: 8, Sequence: 4096}, h100, "--fsdp full", 5},
		{"70B on 8", llama70B, budget.Setting{Optimizer: "adamw-fused", GPUs: 8, Sequence: 4096}, h100, "--tp", 5},
		{"405B on 128", llama405B, budget.Setting{Optimizer: "adamw-fused", GPUs: 128, Sequence: 8192, Framework: "megatron"}, h100, "--fsdp full --tp 8 --sequence-parallel --optimizer adamw-fused --checkpointing full --master-weights", 1},
		{"8B on one", llama8B, budget.Setting{Sequence: 512}, h100, "--precision bf16 --batch 2", 5},
		{"1.5B on 12 GB", qwen15B, budget.Setting{Sequence: 1024}, gpus.GPU{Name: "12", Capacity: 12282 * mib, Context: 300 * mib}, "--optimizer adamw-8bit", 5},
		{"32B on two of 24 GB", qwen32B, budget.Setting{Sequence: 2048, GPUs: 2, LoRA: 16}, gpus.GPU{Name: "24", Capacity: 24080 * mib, Context: 460 * mib}, "--precision int4 --batch 1 --seq 2048 --gpus 2 --fsdp full --checkpointing full --loss fused", 1},
		{"adapters that are asked for", llama8B, budget.Setting{Sequence: 1024, LoRA: 64, Adapter: "dora"}, h100, "--lora 64 --adapter dora", 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := configOf(t, tt.c)
			ps, _, err := Plans(c, tt.s, tt.g, []string{"bf16-mixed", "bf16"})
			for _, p := range ps {
				t.Logf("x%.2f %s", p.Cost, p.Flags)
			}
			if err != nil || len(ps) != tt.n {
				t.Fatalf("%d plans, %v, want %d", len(ps), err, tt.n)
			}
			if !strings.Contains(ps[0].Flags, tt.want) {
				t.Errorf("the best is %s, want %s", ps[0].Flags, tt.want)
			}
			for i, p := range ps {
				b, err := budget.Compute(c, p.Setting)
				if err != nil || !b.Fits(tt.g) || b.TotalDevice() != p.TotalDevice {
					t.Errorf("%s: %d bytes of %d, %v", p.Flags, p.TotalDevice, tt.g.Capacity, err)
				}
				if i > 0 && (p.Order < ps[i-1].Order || p.Order == ps[i-1].Order && p.Cost < ps[i-1].Cost) {
					t.Errorf("%s is better than the one before", p.Flags)
				}
			}
		})
	}
}

// Plans are distinct: no framework gets what it hasn't, none takes twice the time of another of its way, and a later
// way is there for what it saves.
func TestPlanWays(t *testing.T) {
	h100 := gpus.GPU{Name: "H100", Capacity: 79 * gib, Context: 614 * mib}
	for _, framework := range []string{"", "torchtitan", "torchtune", "megatron"} {
		ps, _, err := Plans(configOf(t, llama70B), budget.Setting{GPUs: 8, Sequence: 4096, Framework: framework}, h100, []string{"bf16-mixed", "bf16"})
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range ps {
			s := p.Setting
			if s.TP > 1 && (s.Adapts() || s.Optimizer == "adamw-8bit") || (framework == "torchtitan" || framework == "megatron") &&
				(s.Adapts() || s.Optimizer == "adamw-8bit") {
				t.Errorf("%s has no %s", framework, p.Flags)
			}
			for _, q := range ps[:i] {
				if q.Order == p.Order && p.Cost > 2*q.Cost || q.Cost <= p.Cost && q.Order < p.Order && !ways[p.Order].other {
					t.Errorf("%s beside %s", p.Flags, q.Flags)
				}
			}
		}
	}
	ps, least, err := Plans(configOf(t, llama70B), budget.Setting{Sequence: 1024}, gpus.GPU{Name: "24", Capacity: 23 * gib}, []string{"bf16-mixed", "bf16"})
	if err != nil || len(ps) > 0 || least == nil || !strings.Contains(least.Flags, "--precision int4 --batch 1") || least.TotalDevice < 23*gib {
		t.Errorf("%d plans, the least %+v, %v", len(ps), least, err)
	}
}

// TestSolveAcrossLooseReserve: much more is reserved over allocated for the batch that is estimated
// first than for those that fit.
func TestSolveAcrossLooseReserve(t *testing.T) {
	c := configOf(t, llama8B)
	g := gpus.GPU{Name: "80", Capacity: 79*gib + 256*mib, Context: 500 * mib}
	n, s, err := Solve(c, budget.Setting{Precision: "bf16", Sequence: 1024, Checkpointing: "full"}, "batch", g)
	if err != nil || n < 4 {
		t.Fatalf("the largest batch is %d (%v), and 4 fits", n, err)
	}
	for _, tt := range []struct {
		batch int64
		fits  bool
	}{{n, true}, {n + 1, false}} {
		s.Batch = tt.batch
		if b, err := budget.Compute(c, s); err != nil || b.Fits(g) != tt.fits {
			t.Errorf("batch %d fits: %v, want %v (%v)", tt.batch, !tt.fits, tt.fits, err)
		}
	}
}

// TestPlansWithoutBfloat16: what nobody asked for isn't offered to a GPU that has no matrix units for it.
func TestPlansWithoutBfloat16(t *testing.T) {
	c, err := budget.FromParams(1_500_000_000)
	if err != nil {
		t.Fatal(err)
	}
	g, err := gpus.Find("T4")
	if err != nil {
		t.Fatal(err)
	}
	all := []string{"bf16-mixed", "bf16"}
	best, _, err := Plans(c, budget.Setting{Sequence: 512}, g, all)
	if err != nil || len(best) == 0 {
		t.Fatal(len(best), err)
	}
	for _, p := range best {
		if strings.HasPrefix(p.Setting.Precision, "bf16") {
			t.Errorf("%s", p.Flags)
		}
	}
	asked, _, err := Plans(c, budget.Setting{Sequence: 512}, g, []string{"bf16"})
	if err != nil || len(asked) == 0 || asked[0].Setting.Precision != "bf16" {
		t.Errorf("asked for bf16: %v, %v", asked, err)
	}
	if n := NoBfloat16(&budget.Setting{Precision: "bf16"}, []string{"T4"}, []gpus.GPU{g}); len(n) != 1 || !strings.Contains(n[0], "7.5") {
		t.Error(n)
	}
	if n := NoBfloat16(&budget.Setting{Precision: "fp16"}, []string{"T4"}, []gpus.GPU{g}); n != nil {
		t.Error(n)
	}
}

// TestLongPlans: a long sequence is divided over GPUs where the framework can, and the plan says so; a short one is not.
func TestLongPlans(t *testing.T) {
	c := configOf(t, llama31)
	for _, tt := range []struct {
		framework string
		sequence  int64
		want      bool
	}{{"torchtitan", 131072, true}, {"torchtitan", 8192, false}, {"torchtune", 131072, false}} {
		plans, _, err := Plans(c, budget.Setting{GPUs: 8, Sequence: tt.sequence, Framework: tt.framework}, gpus.GPU{Name: "H100", Capacity: 79 * gib}, []string{"bf16"})
		if err != nil {
			t.Fatal(err)
		}
		got := slices.ContainsFunc(plans, func(p budget.Plan) bool { return strings.Contains(p.Flags, " --cp ") })
		if got != tt.want {
			t.Errorf("%s, %d tokens: %+v", tt.framework, tt.sequence, plans)
		}
	}
}
