package diagnose

import (
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/testing/phased"
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

// TestCopiesWithoutName: weights without a name count as a variable's where one with a name is as large.
func TestCopiesWithoutName(t *testing.T) {
	const mib = 1 << 20
	p := &phased.Program{}
	p.In(classify.Setup)
	made := p.Make(8*mib, 2) // the first has a name
	made = append(made, p.Make(9*mib, 1)...)
	a := p.Follow()
	r := &meaning.Result{Names: []string{"", "layer.weight"}, Name: make([]uint32, a.Timeline.Len())}
	h := classify.Holder{Path: "main.copies"}
	for i, b := range made {
		id := a.Timeline.Of[b]
		r.Category, r.Confidence = append(r.Category, classify.Weights), append(r.Confidence, 95)
		if i == 0 {
			r.Name[id] = 1
		}
		h.Tensors = append(h.Tensors, id)
	}
	e := &examination{Pass: &facts.Pass{T: a.Timeline, Classes: &classify.Classification{Result: r}, Variables: []classify.Holder{h}}}
	var bytes int64
	found := e.heldWithoutName(a.Last-1, nil, func(_ *classify.Holder, _ int, n int64) { bytes += n })
	if len(found) != 1 || !found[a.Timeline.Of[made[1]]] || bytes != 8*mib {
		t.Errorf("%v, %d bytes; want the second", found, bytes)
	}
}
