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

// TestUnclear names the line that made what nothing is known of, where one did.
func TestUnclear(t *testing.T) {
	for want, at := range map[string]*report.Place{
		"the GPU is full": nil,
		"tensors made at __init__ gptq.py:12 hold 27 GiB of 38 GiB in use": {Function: "__init__", File: "gptq.py", Line: new(12)},
	} {
		f := failure{&report.OOM{AllocatedBytes: 38 << 30}, &report.Device{},
			&report.Cause{Cause: report.Unclear, Bytes: 27 << 30, At: at}}
		if got := f.designed(f.first); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
