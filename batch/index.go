package batch

import (
	"cmp"
	"maps"
	"slices"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
)

// maxRows bounds the rows of the page: a browser takes a second for so many.
const maxRows = 20_000

// indexBuilder sums reports up, one after another, into the page over all.
type indexBuilder struct {
	rows        []report.IndexRow
	figures     report.IndexFigures
	title       *string // of all reports so far, "" where they differ
	failures    map[string]*failure
	experiments map[string][]point
	budgets     map[[2]string]*gap
}

// point is one run within its experiment.
type point struct {
	link      report.IndexLink
	time      int64
	allocated int64 // its peak; with what the failed request asked for, when one failed
	reached   int64 // its peak
	oom       bool
	usable    bool // has a peak to compare
	leak      int64
	kind      string
	where     string
}

// add takes one report in. Runs come in the order of their paths.
func (b *indexBuilder) add(r *Report) {
	if b.failures == nil {
		b.failures, b.experiments, b.budgets = map[string]*failure{}, map[string][]point{}, map[[2]string]*gap{}
	}
	row := report.IndexRow{Path: r.Path, Name: r.Name, Experiment: r.Experiment, Status: report.StatusFailed, Text: r.Error,
		Brief: firstWords(r.Error)}
	b.figures.Runs++
	if r.Document == nil {
		b.figures.Failed++
		b.rows = append(b.rows, row)
		b.experiments[r.Experiment] = append(b.experiments[r.Experiment], point{})
		return
	}
	doc := r.Document
	if b.title == nil {
		b.title = new(doc.Title) // a pointer into a document would keep all of it
	} else if *b.title != doc.Title {
		b.title = new(string)
	}
	row.Text, row.Fix, row.SavesBytes, row.Devices = doc.Verdict.Text, doc.Verdict.Fix, doc.Verdict.SavesBytes, len(doc.Devices)
	row.Effect = effectOf(doc)
	row.Time = firstTime(doc)
	p := point{link: report.IndexLink{Path: r.Path, Name: r.Name}}
	if row.Time != nil {
		p.time = *row.Time
		b.figures.FirstTime, b.figures.LastTime = earlier(b.figures.FirstTime, row.Time), later(b.figures.LastTime, row.Time)
	}
	if d := doc.Fullest(); d != nil {
		b.device(&row, &p, d)
	}
	if l := growing(doc); l != nil {
		p.leak, p.kind, p.where = *l.BytesPerStep, l.Kind, lineOf(l)
	}
	row.Failures = b.addFailures(r, row.Time)
	if p.leak > 0 {
		row.LeakBytes = &p.leak
		if b.figures.Leaking++; len(row.Failures) > 0 {
			b.figures.LeakingOOM++
		}
	}
	row.Status = statusOf(doc, len(row.Failures) > 0, p.leak > 0)
	row.Brief, row.Facts = brief(doc, row.Status, &p), factsOf(doc)
	b.count(row.Status)
	b.rows = append(b.rows, row)
	b.experiments[r.Experiment] = append(b.experiments[r.Experiment], p)
	b.addBudget(r)
}

// effectOf is what the peak becomes by the verdict's change, "" where that isn't known.
func effectOf(doc *report.Document) string {
	if c := doc.Best(); c != nil {
		return c.Falls()
	}
	return ""
}

// device takes the figures of the run's fullest GPU.
func (b *indexBuilder) device(row *report.IndexRow, p *point, d *report.Device) {
	row.Capacity = d.CapacityBytes
	row.Allocated, row.Reserved = new(d.Peaks.Allocated.Bytes), new(d.Peaks.Reserved.Bytes) // not pointers into the document
	for _, c := range report.Categories {
		row.Categories = append(row.Categories, d.AtPeak.Categories[c])
	}
	p.allocated, p.reached, p.usable = d.Peaks.Allocated.Bytes, d.Peaks.Allocated.Bytes, d.History != "none"
	for _, o := range d.OOMs {
		p.oom, p.allocated = true, max(p.allocated, o.AllocatedBytes+o.RequestedBytes)
	}
}

func (b *indexBuilder) count(s report.Status) {
	switch s {
	case report.StatusOOM:
		b.figures.OOM++
	case report.StatusWarning:
		b.figures.Warning++
	case report.StatusFine:
		b.figures.Fine++
	}
}

// statusOf is the worst thing that a report says.
// growing is the leak that takes most in every step; nil: none does. Gradients that are kept
// don't grow.
func growing(doc *report.Document) (most *report.Leak) {
	for i := range doc.Devices {
		for k := range doc.Devices[i].Leaks {
			l := &doc.Devices[i].Leaks[k]
			if l.Defect && !l.Suspected && l.BytesPerStep != nil && *l.BytesPerStep > 0 && l.Kind != "gradients_kept" &&
				(most == nil || *l.BytesPerStep > *most.BytesPerStep) {
				most = l
			}
		}
	}
	return most
}

// ranOut reports whether a request failed, as a recording or a log tells.
func ranOut(doc *report.Document) bool {
	return len(doc.OnlyLogged()) > 0 || slices.ContainsFunc(doc.Devices, func(d report.Device) bool { return len(d.OOMs) > 0 })
}

// Leaks reports whether the run leaks, whatever else it does.
func (r *Report) Leaks() bool { return r.Document != nil && growing(r.Document) != nil }

// Status is the worst thing that the report says.
func (r *Report) Status() report.Status {
	if r.Document == nil {
		return report.StatusFailed
	}
	return statusOf(r.Document, ranOut(r.Document), growing(r.Document) != nil)
}

func statusOf(doc *report.Document, oom, leaks bool) report.Status {
	switch {
	case oom:
		return report.StatusOOM
	case leaks:
		return report.StatusLeak
	case doc.Verdict.Severity != report.Info, endedBadly(doc.Ended):
		return report.StatusWarning
	}
	return report.StatusFine
}

// endedBadly reports whether a run ended otherwise than well, which a verdict on memory may only mention.
func endedBadly(e *report.Ended) bool {
	return e != nil && slices.Contains([]evidence.How{evidence.Failed, evidence.Killed, evidence.Stopped}, evidence.How(e.How))
}

// index is the page's contents.
func (b *indexBuilder) index() *report.Index {
	x := &report.Index{Rows: b.rows, Figures: b.figures, Experiments: len(b.experiments)}
	if b.title != nil {
		x.Title = *b.title
	}
	for _, name := range slices.Sorted(maps.Keys(b.experiments)) {
		points := b.experiments[name]
		slices.SortStableFunc(points, func(a, b point) int { return cmp.Compare(a.time, b.time) })
		if g, ok := grown(name, points); ok {
			x.Regressions = append(x.Regressions, g)
		}
		if l, ok := leakTrend(name, points); ok {
			x.Leaks = append(x.Leaks, l)
		}
	}
	slices.SortStableFunc(x.Regressions, func(a, b report.Regression) int {
		return cmp.Or(last(a.Still, b.Still), cmp.Compare(*b.Since, *a.Since))
	})
	slices.SortStableFunc(x.Leaks, func(a, b report.LeakTrend) int {
		return cmp.Or(last(a.Still, b.Still), cmp.Compare(b.Latest, a.Latest))
	})
	x.OOMs, x.Budgets = b.groups(), b.gaps()
	if len(x.Rows) > maxRows {
		x.Rows, x.Left = report.Worst(x.Rows, maxRows), len(x.Rows)-maxRows
	}
	return x
}

// last puts what is over behind what isn't.
func last(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// firstTime is when a run's recording began, by its own clock.
func firstTime(doc *report.Document) *int64 {
	var first *int64
	for i := range doc.Devices {
		first = earlier(first, doc.Devices[i].FirstTime)
	}
	return first
}

// earlier and later choose among times of which either may be unknown.
func earlier(a, b *int64) *int64 {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}

func later(a, b *int64) *int64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

func median(values []int64) int64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}
