package budget

import (
	"strings"
	"testing"
)

// Every plan fits, the best is first, and a model too large to train in full is given the
// lightest way that fits.
func TestPlans(t *testing.T) {
	h100 := GPU{Name: "H100", Capacity: 79 * gib, Context: 614 * mib}
	for _, tt := range []struct {
		name string
		c    map[string]any
		s    Setting
		g    GPU
		want string // in the best plan's flags
	}{
		{"7B on 24 GB", with(llama8B, "vocab_size", 32000.0), Setting{Optimizer: "adamw-fused"}, GPU{Name: "24", Capacity: 23 * gib, Context: 460 * mib}, "--lora 16"},
		{"8B on 8", llama8B, Setting{Optimizer: "adamw-fused", GPUs: 8, Sequence: 4096}, h100, "--fsdp full"},
		{"70B on 8", llama70B, Setting{Optimizer: "adamw-fused", GPUs: 8, Sequence: 4096}, h100, "--tp"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := configOf(t, tt.c)
			ps, err := Plans(c, tt.s, tt.g, []string{"bf16-mixed", "bf16"})
			if err != nil || len(ps) == 0 || len(ps) > plansShown {
				t.Fatalf("%d plans, %v", len(ps), err)
			}
			if !strings.Contains(ps[0].Flags, tt.want) {
				t.Errorf("the best is %s, want %s", ps[0].Flags, tt.want)
			}
			for i, p := range ps {
				b, err := Compute(c, p.Setting)
				if err != nil || !b.fits(tt.g) || b.TotalDevice() != p.TotalDevice {
					t.Errorf("%s: %d bytes of %d, %v", p.Flags, p.TotalDevice, tt.g.Capacity, err)
				}
				if i > 0 && p.Cost < ps[i-1].Cost {
					t.Errorf("%s is better than the one before", p.Flags)
				}
			}
		})
	}
}
