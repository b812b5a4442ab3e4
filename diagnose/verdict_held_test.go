package diagnose

import (
	"testing"

	"github.com/vramscope/vramscope/report"
)

// TestHeldMost names a variable only where it holds much of what was there.
func TestHeldMost(t *testing.T) {
	for want, holders := range map[string][]report.Holder{
		"": nil,
		"main.seen holds 320 MiB of them in 40 tensors": {{Path: "main.seen", Tensors: 40, Bytes: 160 << 20, GraphBytes: 160 << 20}},
		"main.x holds 34 MiB of them in 1 tensor":       {{Path: "main.x", Tensors: 1, Bytes: 34 << 20}, {Path: "main.y", Bytes: 1}},
	} {
		d := &report.Device{AtEnd: report.Moment{AllocatedBytes: 340 << 20}, Holders: holders}
		if got := heldMost(d); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	small := &report.Device{AtEnd: report.Moment{AllocatedBytes: 341 << 20}, Holders: []report.Holder{{Path: "x", Bytes: 34 << 20}}}
	if got := heldMost(small); got != "" {
		t.Errorf("%q of less than a tenth", got)
	}
}
