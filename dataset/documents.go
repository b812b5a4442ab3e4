package dataset

import (
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
)

// documentRows is what makes a table's rows of a report; nil when the table
// isn't made from reports.
func documentRows(t *Table) func(*rows, string, *report.Document) {
	switch t {
	case Runs:
		return func(r *rows, run string, d *report.Document) { runRow(r, run, called{}, "", d) }
	case Devices:
		return perDevice(deviceRow)
	case Findings:
		return findingRows
	case RunCategories:
		return perDevice(momentRows)
	case OOMs:
		return oomRows
	case Leaks:
		return perDevice(leakRows)
	case Sites:
		return perDevice(siteRows)
	case Settings:
		return settingRows
	}
	return nil
}

// perDevice makes rows GPU by GPU; begin writes the columns that tell whose
// row it is.
func perDevice(f func(r *rows, begin func(), doc *report.Document, d *report.Device)) func(*rows, string, *report.Document) {
	return func(r *rows, run string, doc *report.Document) {
		for i := range doc.Devices {
			d := &doc.Devices[i]
			begin := func() {
				r.text(run)
				r.int(int64(d.Device))
				r.intAt(d.Rank)
			}
			f(r, begin, doc, d)
		}
	}
}

func deviceRow(r *rows, begin func(), doc *report.Document, d *report.Device) {
	begin()
	if d.Input >= 0 && d.Input < len(doc.Inputs) {
		r.text(doc.Inputs[d.Input].Path)
	} else {
		r.null()
	}
	r.text(d.History)
	r.text(d.Stacks)
	r.int(int64(d.Events))
	r.int(int64(d.Allocations))
	r.int(int64(len(d.Steps)))
	levels(r, d)
	r.int(int64(len(d.OOMs)))
	r.int(int64(defects(d)))
	r.int64At(d.FirstTime)
	r.int64At(d.LastTime)
	r.end()
}

// levels writes the figures that runs and devices share.
func levels(r *rows, d *report.Device) {
	for _, p := range [...]report.Peak{d.Peaks.Requested, d.Peaks.Allocated, d.Peaks.Active, d.Peaks.Reserved} {
		r.int(p.Bytes)
	}
	r.int(d.AtPeak.CacheBytes)
	r.int(d.AtEnd.AllocatedBytes)
	r.int(d.AtEnd.ReservedBytes)
	r.int64At(d.CapacityBytes)
}

func defects(d *report.Device) (n int) {
	for i := range d.Leaks {
		if d.Leaks[i].Defect {
			n++
		}
	}
	return n
}

func findingRows(r *rows, run string, doc *report.Document) {
	for i := range doc.Findings { // of the whole run: no device, no rank
		r.text(run)
		r.null()
		r.null()
		findingRow(r, &doc.Findings[i])
	}
	perDevice(func(r *rows, begin func(), _ *report.Document, d *report.Device) {
		for i := range d.Findings {
			begin()
			findingRow(r, &d.Findings[i])
		}
	})(r, run, doc)
}

func findingRow(r *rows, f *report.Finding) {
	r.text(f.ID)
	r.text(string(f.Severity))
	r.text(f.Title)
	r.texts(f.Evidence)
	r.textAt(f.Fix)
	r.textOrNull(f.Code)
	r.int64At(f.SavesBytes)
	r.float(f.Confidence)
	r.end()
}

func momentRows(r *rows, begin func(), _ *report.Document, d *report.Device) {
	for _, m := range [...]struct {
		name string
		*report.Moment
	}{{"peak", &d.AtPeak}, {"end", &d.AtEnd}} {
		for c := range classify.NumCategories {
			word := classify.Category(c).String()
			bytes, ok := m.Categories[word]
			if !ok {
				continue
			}
			begin()
			r.text(m.name)
			r.intAt(m.Event)
			r.text(word)
			r.int(bytes)
			r.end()
		}
	}
}

func oomRows(r *rows, run string, doc *report.Document) {
	perDevice(recordedRows)(r, run, doc)
	told := doc.OnlyLogged()
	for i := range told {
		messageRow(r, run, &told[i])
	}
}

func messageRow(r *rows, run string, m *evidence.OOMMessage) {
	r.text(run)
	r.intAt(m.GPU)
	r.intAt(m.Rank)
	r.text("log")
	r.null() // event
	r.text(report.MessageFingerprint(m))
	if m.Verdict != nil {
		r.text(*m.Verdict)
	} else {
		r.text("unknown")
	}
	r.textAt(m.Phase)
	r.int64At(m.RequestedBytes)
	r.int64At(m.AllocatedBytes)
	if m.AllocatedBytes != nil && m.ReservedUnallocatedBytes != nil {
		r.int(*m.AllocatedBytes + *m.ReservedUnallocatedBytes)
	} else {
		r.null()
	}
	r.int64At(m.DeviceFreeBytes)
	r.null() // largest free block
	r.int64At(m.CapacityBytes)
	r.null() // category
	r.textAt(m.UserFunction)
	r.textAt(m.UserFile)
	r.intAt(m.UserLine)
	for range 4 { // where it was called from, op
		r.null()
	}
	r.textAt(m.Fix)
	r.null() // first and last time
	r.null()
	r.list(0, nil)
	r.end()
}

func recordedRows(r *rows, begin func(), doc *report.Document, d *report.Device) {
	for i := range d.OOMs {
		o := &d.OOMs[i]
		begin()
		r.text("recording")
		r.int(int64(o.Event))
		r.textAt(o.Fingerprint)
		r.text(o.Verdict)
		r.textAt(o.Phase)
		r.int(o.RequestedBytes)
		r.int(o.AllocatedBytes)
		r.int(o.ReservedBytes)
		r.int64At(o.DeviceFreeBytes)
		r.int64At(o.LargestFreeBlock)
		r.int64At(d.CapacityBytes)
		site := o.Site
		if site == nil {
			site = &report.Site{}
		}
		r.textAt(site.Category)
		r.textOrNull(site.Function)
		r.textOrNull(site.File)
		r.intAt(site.Line)
		calledFrom(r, site)
		r.textOrNull(site.Op)
		fix, _ := doc.Advice(d, o)
		r.textAt(fix)
		r.int64At(d.FirstTime)
		r.int64At(d.LastTime)
		r.list(len(o.PinnedBy), func(x *rows, i int) {
			p := &o.PinnedBy[i]
			x.address(p.Address)
			x.int(p.Bytes)
			x.textAt(p.Category)
			x.textAt(p.Function)
			x.textAt(p.File)
			x.intAt(p.Line)
		})
		r.end()
	}
}

func leakRows(r *rows, begin func(), _ *report.Document, d *report.Device) {
	for i := range d.Leaks {
		l := &d.Leaks[i]
		begin()
		r.int(int64(i))
		r.text(l.Kind)
		r.bool(l.Defect)
		r.bool(l.Suspected)
		r.textAt(l.Category)
		r.textAt(l.Function)
		r.textAt(l.File)
		r.intAt(l.Line)
		r.int64At(l.BytesPerStep)
		r.int(int64(l.Steps))
		r.int(l.TotalBytes)
		r.float(l.Confidence)
		r.text(l.Fix)
		r.intAt(l.FullAtStep)
		r.list(len(l.Sites), func(x *rows, i int) {
			site := &l.Sites[i]
			x.text(site.Function)
			x.text(site.File)
			x.intAt(site.Line)
			x.int(site.Bytes)
		})
		r.end()
	}
}
