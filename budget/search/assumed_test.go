package search

import (
	"math"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/budget"
)

// Whatever is taken for granted and moves the peak by more than 2 % has its flag in the note;
// what moves it less, or was said, hasn't.
func TestAssumed(t *testing.T) {
	nothing := func(string) bool { return false }
	for name, s := range map[string]budget.Setting{
		"plain": {Sequence: 2048}, "autocast": {Precision: "bf16-mixed", Batch: 4}, "checkpointed": {Checkpointing: "full", Batch: 2, Sequence: 2048},
		"sharded": {FSDP: "full", GPUs: 8, Sequence: 4096}, "torchtitan's": {Framework: "torchtitan", FSDP: "full", GPUs: 8, Compile: true},
		"LoRA": {LoRA: 64, Sequence: 2048}, "QLoRA": {LoRA: 16, Precision: "int4", Checkpointing: "full"}, "(IA)3": {Adapter: "ia3", Sequence: 512},
		"accumulated": {Accumulate: 4, Sequence: 512}, "optimizer's step": {Checkpointing: "full", Sequence: 128}, "pipeline": {PP: 2, Sequence: 512},
	} {
		t.Run(name, func(t *testing.T) {
			c := configOf(t, llama4)
			b, err := budget.Compute(c, s)
			if err != nil {
				t.Fatal(err)
			}
			said, band := Assumed(c, b, nothing)
			t.Log(said)
			if (band.More > 0) != (band.Flags != "") || band.More > 0 && !strings.Contains(said, band.Flags+" (+") {
				t.Errorf("%+v isn't of %q", band, said)
			}
			for _, a := range assumptions {
				x := b.Setting
				words := "--" + a.flag
				if !a.vary(&x) {
					continue
				}
				other, err := budget.Compute(c, x)
				if err != nil {
					continue
				}
				if a.flag == "optimizer" {
					words += " " + x.Optimizer
				}
				if a.other != "" {
					words += " " + a.other
				}
				by := math.Abs(float64(other.PeakBytes)/float64(b.PeakBytes) - 1)
				if named := strings.Contains(said, words+" ("); named != (by > 0.02) {
					t.Errorf("%s moves the peak by %.2f %%: named %t", words, 100*by, named)
				}
			}
			if said, _ := Assumed(c, b, func(string) bool { return true }); said != "" {
				t.Errorf("all was given, and is assumed: %s", said)
			}
		})
	}
}
