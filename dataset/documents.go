package dataset

import (
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
)

// source is what a run's rows are made from.
type source struct {
	run                string
	report, experiment string // what a batch calls the run besides
	failed             string // why it couldn't be analysed
	doc                *report.Document
}

// gpuRow is a GPU of a run.
type gpuRow struct {
	owner
	*report.Device
	input *string
}

// gpus are those of a run.
func (s *source) gpus(f func(o owner, d *report.Device)) {
	for i := range s.doc.Devices {
		d := &s.doc.Devices[i]
		f(owner{s.run, &d.Device, d.Rank}, d)
	}
}

func deviceRows(s *source, add func(any)) {
	s.gpus(func(o owner, d *report.Device) {
		g := &gpuRow{owner: o, Device: d}
		if d.Input >= 0 && d.Input < len(s.doc.Inputs) {
			g.input = &s.doc.Inputs[d.Input].Path
		}
		add(g)
	})
}

func defects(d *report.Device) (n int) {
	for i := range d.Leaks {
		if d.Leaks[i].Defect {
			n++
		}
	}
	return n
}

type findingRow struct {
	owner
	*report.Finding
}

func findingRows(s *source, add func(any)) {
	for i := range s.doc.Findings { // of the whole run: no device, no rank
		add(&findingRow{owner{run: s.run}, &s.doc.Findings[i]})
	}
	s.gpus(func(o owner, d *report.Device) {
		for i := range d.Findings {
			add(&findingRow{o, &d.Findings[i]})
		}
	})
}

// momentRow is a category at a moment.
type momentRow struct {
	owner
	moment, category string
	event            *int
	bytes            int64
}

func momentRows(s *source, add func(any)) {
	s.gpus(func(o owner, d *report.Device) {
		for c := range 2 * classify.NumCategories {
			name, m := "peak", &d.AtPeak
			if c >= classify.NumCategories {
				name, m = "end", &d.AtEnd
			}
			word := classify.Category(c % classify.NumCategories).String()
			if bytes, ok := m.Categories[word]; ok {
				add(&momentRow{o, name, word, m.Event, bytes})
			}
		}
	})
}

// oomRow is a request that failed.
type oomRow struct {
	owner
	toldBy, verdict                                                                string
	event                                                                          *int
	fingerprint, phase, fix, fixID                                                 *string
	requested, allocated, reserved, deviceFree, largestFree, capacity, first, last *int64
	site                                                                           report.Site
	from                                                                           report.Place
	pinnedBy                                                                       []report.Pin
}

func oomRows(s *source, add func(any)) {
	s.gpus(func(o owner, d *report.Device) {
		for i := range d.OOMs {
			x := &d.OOMs[i]
			r := &oomRow{owner: o, toldBy: "recording", event: &x.Event, fingerprint: x.Fingerprint, verdict: x.Verdict,
				phase: x.Phase, requested: &x.RequestedBytes, allocated: &x.AllocatedBytes, reserved: &x.ReservedBytes,
				deviceFree: x.DeviceFreeBytes, largestFree: x.LargestFreeBlock, capacity: d.CapacityBytes,
				first: d.FirstTime, last: d.LastTime, pinnedBy: x.PinnedBy}
			if x.Site != nil {
				r.site, r.from = *x.Site, placeOf(x.Site)
			}
			r.advise(s.doc.Advice(d, x))
			add(r)
		}
	})
	told := s.doc.OnlyLogged()
	for i := range told {
		r := messageRow(s.run, &told[i])
		if told[i].Fix != nil {
			r.advise(s.doc.MessageAdvice(&told[i]))
		}
		add(r)
	}
}

// advise is what to change, with a word for it that is the same in other runs.
func (r *oomRow) advise(a report.Advice) {
	if r.fix = a.Fix; a.Fix != nil {
		r.fixID = a.ID
	}
}

// messageRow is a request that failed as a log tells it.
func messageRow(run string, m *evidence.OOMMessage) *oomRow {
	fingerprint := report.MessageFingerprint(m)
	r := &oomRow{owner: owner{run, m.GPU, m.Rank}, toldBy: "log", fingerprint: &fingerprint, verdict: "unknown", phase: m.Phase,
		requested: m.RequestedBytes, allocated: m.AllocatedBytes, deviceFree: m.DeviceFreeBytes, capacity: m.CapacityBytes,
		fix: m.Fix, site: report.Site{Line: m.UserLine}}
	if m.Verdict != nil {
		r.verdict = *m.Verdict
	}
	if m.AllocatedBytes != nil && m.ReservedUnallocatedBytes != nil {
		r.reserved = new(*m.AllocatedBytes + *m.ReservedUnallocatedBytes)
	}
	if m.UserFunction != nil {
		r.site.Function = *m.UserFunction
	}
	if m.UserFile != nil {
		r.site.File = *m.UserFile
	}
	return r
}

// leakRow is a thing that grows.
type leakRow struct {
	owner
	*report.Leak
	index int
}

func leakRows(s *source, add func(any)) {
	s.gpus(func(o owner, d *report.Device) {
		for i := range d.Leaks {
			add(&leakRow{o, &d.Leaks[i], i})
		}
	})
}

// siteRow is a call site that holds memory at the peak.
type siteRow struct {
	owner
	*report.Site
	index int
	from  report.Place
	oom   bool
}

func siteRows(s *source, add func(any)) {
	s.gpus(func(o owner, d *report.Device) {
		for i := range d.Sites {
			add(&siteRow{o, &d.Sites[i], i, placeOf(&d.Sites[i]), len(d.OOMs) > 0})
		}
	})
}

// placeOf is the user's line that led to a site.
func placeOf(s *report.Site) (from report.Place) {
	if s.CalledFrom != nil {
		from = *s.CalledFrom
	}
	return from
}
