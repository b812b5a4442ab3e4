package html

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/internal/words"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/view"
)

var unknown = words.Unknown.String()

// proof is the picture of a verdict: what a GPU held at the moment that matters,
// as one bar beside its capacity, with the request that failed at its end.
type proof struct {
	Title string
	Note  string // in a sentence
	Rest  string // what was still to come
	Parts []proofPart
	Limit float64 // where the capacity lies, in percent of the bar; 0: not known
	Size  int64   // the capacity
	Of    string  // what has that capacity
}

// proofPart is a piece of the bar.
type proofPart struct {
	Class   string // of the style sheet, which has its colour
	Name    string
	Bytes   int64
	Percent float64 // of the bar
	Share   string  // of what was allocated, "" for what wasn't
}

// newProof is the proof of a device's verdict. At a failure cache counts as room for the
// request, unless it lies in pieces.
func newProof(d *report.Device) proof {
	p := proof{Title: "At the peak"}
	if n := len(d.OOMs); n > 0 && d.AtFailure != nil {
		return p.failed(d, &d.OOMs[n-1])
	}
	if d.History == "none" {
		p.Title = "At the dump"
	}
	p.allocated(d, d.AtPeak.AllocatedBytes)
	p.add("cache", "cached by PyTorch, unused", d.AtPeak.CacheBytes)
	p.outside(d, 0)
	if p.finish(d); len(p.Parts) > 0 {
		p.Note = units.Size(d.AtPeak.ReservedBytes) + " reserved by PyTorch" + ofCapacity(d) + "."
	}
	return p
}

// ofCapacity is " of" the capacity, "" where that isn't known.
func ofCapacity(d *report.Device) string {
	if d.CapacityBytes == nil {
		return ""
	}
	return " of " + units.Size(*d.CapacityBytes)
}

// failed is that of a failed request.
func (p proof) failed(d *report.Device, o *report.OOM) proof {
	p.Title = "When the request failed"
	p.allocated(d, o.AllocatedBytes)
	if o.Verdict == report.Fragmentation {
		p.add("cache pieces", "cached by PyTorch, free in pieces", o.ReservedBytes-o.AllocatedBytes)
	}
	others, _ := view.Outside(d)
	p.outside(d, max(0, others))
	p.add("request", "asked for", o.RequestedBytes)
	p.finish(d)
	p.Note = units.Size(o.AllocatedBytes) + " in use" + ofCapacity(d) + " when " + units.Size(o.RequestedBytes) +
		" were asked for"
	if o.Verdict == report.Fragmentation {
		p.Note += ": enough is free, in pieces that are too small"
	} else if missing := evidence.Or(o.MissingBytes, 0); missing > 0 {
		p.Note += ", " + units.Size(missing) + " more than there was"
	}
	p.Note += "."
	if x := d.Projection; x != nil && len(x.Missing) > 0 {
		p.Rest = "Still to come: " + view.Missing(x, report.CategoryWords) + ". The run needs about " +
			units.Size(x.NeedsBytes) + "."
	}
	return p
}

// add is a piece, unless it holds nothing.
func (p *proof) add(class, name string, bytes int64) {
	if bytes > 0 {
		p.Parts = append(p.Parts, proofPart{Class: class, Name: name, Bytes: bytes})
	}
}

// allocated adds what was in use at the moment that the verdict is about by category,
// the largest first; or all in one where categories aren't known.
func (p *proof) allocated(d *report.Device, sum int64) {
	m, sites := d.Shown()
	if m = m.Split(sites); len(m.Categories) == 0 {
		p.add("c-all", "allocated", sum)
		return
	}
	for _, c := range report.Shown {
		p.add("c-"+c, report.CategoryTitle(c), m.Categories[c])
	}
	slices.SortStableFunc(p.Parts, func(a, b proofPart) int { return cmp.Compare(b.Bytes, a.Bytes) })
	for i := range p.Parts {
		p.Parts[i].Share = units.Percent(p.Parts[i].Bytes, sum)
	}
}

// pytorchs reports whether a device's capacity is what PyTorch could have, as its own entry about a failure tells.
func pytorchs(d *report.Device) bool { return evidence.Or(d.CapacitySource, "") == "oom_entry" }

// outside adds what the GPU holds besides PyTorch's own, told apart where that is known, if the capacity is the GPU's.
func (p *proof) outside(d *report.Device, bytes int64) {
	if d.CapacityBytes == nil || pytorchs(d) {
		return
	}
	parts := view.Besides(&d.AtPeak)
	if parts == [...]*int64{nil, nil, nil} {
		p.add("outside", "outside PyTorch", bytes)
		return
	}
	for i, part := range parts {
		p.add([...]string{"outside", "others", "outside"}[i], view.Outsiders[i], evidence.Or(part, 0))
	}
}

// finish works out how long the pieces are. A capacity far above all of them
// isn't drawn: it would leave nothing to see.
func (p *proof) finish(d *report.Device) {
	if p.Of = "capacity"; pytorchs(d) {
		p.Of = "PyTorch could have"
	}
	var whole int64
	for _, x := range p.Parts {
		whole += x.Bytes
	}
	if capacity := evidence.Or(d.CapacityBytes, 20*whole); capacity < 20*whole {
		whole, p.Size = max(whole, capacity), capacity
		p.Limit = 100 * float64(capacity) / float64(whole)
	}
	for i := range p.Parts {
		p.Parts[i].Percent = 100 * float64(p.Parts[i].Bytes) / float64(max(1, whole))
	}
}
