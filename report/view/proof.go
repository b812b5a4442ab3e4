package view

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// proof is the picture of a verdict: what a GPU held at the moment that matters,
// as one bar beside its capacity, with the request that failed at its end. At a failure
// cache counts as room for the request, unless it lies in pieces.
func proof(d *report.Device) Part {
	p := Part{Heading: "At the peak", Text: []string{units.Size(d.AtPeak.ReservedBytes) + " reserved by PyTorch" +
		ofCapacity(d) + "."}}
	var bar Stacked
	switch n := len(d.OOMs); {
	case n > 0 && d.AtFailure != nil:
		return failureProof(d, &d.OOMs[n-1])
	case d.History == "none":
		p.Heading = "At the dump"
	}
	bar.allocated(d, d.AtPeak.AllocatedBytes)
	bar.add("cache", "cached by PyTorch, unused", d.AtPeak.CacheBytes)
	bar.outside(d, 0)
	p.Bars = bar.beside(d)
	return p
}

// ofCapacity is " of" the capacity, "" where that isn't known.
func ofCapacity(d *report.Device) string {
	return when(d.CapacityBytes != nil, " of "+units.Size(evidence.Or(d.CapacityBytes, 0)))
}

func failureProof(d *report.Device, o *report.OOM) Part {
	p := Part{Heading: "When the request failed"}
	var bar Stacked
	bar.allocated(d, o.AllocatedBytes)
	if o.Verdict == report.Fragmentation {
		bar.add("cache pieces", "cached by PyTorch, free in pieces", o.ReservedBytes-o.AllocatedBytes)
	}
	others, _ := Outside(d)
	bar.outside(d, max(0, others))
	bar.add("request", "asked for", o.RequestedBytes)
	p.Bars = bar.beside(d)
	note := units.Size(o.AllocatedBytes) + " in use" + ofCapacity(d) + " when " + units.Size(o.RequestedBytes) + " were asked for"
	if o.Verdict == report.Fragmentation {
		note += ": enough is free, in pieces that are too small"
	} else if missing := evidence.Or(o.MissingBytes, 0); missing > 0 {
		note += ", " + units.Size(missing) + " more than there was"
	}
	p.Text = []string{note + "."}
	if x := d.Projection; x != nil && len(x.Missing) > 0 {
		p.Rest = "Still to come: " + Missing(x, report.CategoryWords) + ". The run needs about " + units.Size(x.NeedsBytes) + "."
	}
	return p
}

// add is a piece, unless it holds nothing.
func (s *Stacked) add(class, name string, bytes int64) {
	if bytes > 0 {
		s.Pieces = append(s.Pieces, Piece{Class: class, Name: name, Bytes: bytes})
		s.Bytes += bytes
	}
}

// allocated adds what was in use at the moment that the verdict is about by category,
// the largest first; or all in one where categories aren't known.
func (s *Stacked) allocated(d *report.Device, sum int64) {
	m, sites := d.Shown()
	if m = m.Split(sites); len(m.Categories) == 0 {
		s.add("c-all", "allocated", sum)
		return
	}
	for _, c := range report.Shown {
		s.add("c-"+c, report.CategoryTitle(c), m.Categories[c])
	}
	slices.SortStableFunc(s.Pieces, func(a, b Piece) int { return cmp.Compare(b.Bytes, a.Bytes) })
	for i := range s.Pieces {
		s.Pieces[i].Share = units.Percent(s.Pieces[i].Bytes, sum)
	}
}

// outside adds what the GPU holds besides PyTorch's own, told apart where that is known, if the capacity is the GPU's.
func (s *Stacked) outside(d *report.Device, bytes int64) {
	if d.CapacityBytes == nil || pytorchs(d) {
		return
	}
	parts := Besides(&d.AtPeak)
	if parts == [...]*int64{nil, nil, nil} {
		s.add("outside", "outside PyTorch", bytes)
		return
	}
	for i, part := range parts {
		s.add([...]string{"outside", "others", "outside"}[i], Outsiders[i], evidence.Or(part, 0))
	}
}

// pytorchs reports whether a device's capacity is what PyTorch could have, as its own entry about a failure tells.
func pytorchs(d *report.Device) bool { return text(d.CapacitySource) == "oom_entry" }

// beside is a bar beside a device's capacity, nil without a piece. A capacity far above all of them
// isn't drawn: it would leave nothing to see.
func (s *Stacked) beside(d *report.Device) *Bars {
	if len(s.Pieces) == 0 {
		return nil
	}
	b := &Bars{Rows: []Stacked{*s}, Whole: s.Bytes}
	if capacity := evidence.Or(d.CapacityBytes, 20*s.Bytes); capacity < 20*s.Bytes {
		name := "capacity"
		if pytorchs(d) {
			name = "PyTorch could have"
		}
		b.Whole, b.Limits = max(b.Whole, capacity), []Limit{{name, capacity}}
	}
	return b
}
