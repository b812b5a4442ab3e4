package budget

import (
	"testing"

	"github.com/vramscope/vramscope/gpus"
)

// TestVerdict: what is spare is measured against what may come on top, and against how far off measurements were.
func TestVerdict(t *testing.T) {
	b := of(t, eightBillion, Setting{LoRA: 16, Checkpointing: "full", Sequence: 512})
	g := gpus.Usual()
	need := b.Need(g)
	for _, tt := range []struct {
		spare, more int64
		want        string
	}{{-1, 0, Short}, {0, 0, Tight}, {b.Reserved / 10, 0, Fitting}, {b.Reserved / 10, b.Reserved / 5, Depending}, {b.Reserved / 10, b.Reserved / 20, Fitting}} {
		g.Capacity = need + tt.spare
		if got := b.Verdict(g, Band{More: tt.more}); got != tt.want {
			t.Errorf("%+v: %s", tt, got)
		}
	}
}
