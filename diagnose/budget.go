package diagnose

import (
	"fmt"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/compare"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// compare puts the budget beside what was measured on this device.
func (e *examination) compare(doc *report.Document) error {
	r, err := compare.Run(e.T, e.Classes, e.View, *e.options.Theory)
	if err != nil {
		return err
	}
	doc.Budget = r
	table := &report.Comparison{Device: e.T.Device.Ordinal, Inferred: r.Inferred,
		Model: fmt.Sprintf("%s, %s parameters", r.Model.Type, units.Count(int(r.Model.Parameters)))}
	if r.By != "" {
		table.Model += ", by " + r.By
	}
	table.Peak = report.Compared{Name: "peak", Budget: r.Expected.PeakBytes, Measured: &r.Measured.PeakBytes,
		Reason: r.Expected.Note}
	if whole := max(r.PeakBytes, r.FirstStep); r.Expected.Note != nil && whole > r.Expected.PeakBytes {
		table.Peak.Reason = new(fmt.Sprintf("%s; the whole step takes %s by the budget", *r.Expected.Note, units.Bytes(whole)))
	}
	for _, p := range r.ByPhase {
		table.Phases = append(table.Phases, report.Compared{Name: p.Phase, Budget: p.Budget, Measured: p.PeakBytes,
			Reason: p.Reason})
	}
	for _, g := range r.Gaps {
		table.Categories = append(table.Categories, report.Compared{Name: g.Category, Budget: g.Budget, Measured: &g.Measured,
			Reason: g.Reason})
	}
	doc.Comparison = table
	if f := overBudget(r, e.options.Theory); f != nil {
		for i := range doc.Devices {
			if d := &doc.Devices[i]; d.Device == e.T.Device.Ordinal {
				d.Findings = append(d.Findings, *f)
				rank(d.Findings)
				break
			}
		}
	}
	return nil
}

// projectByBudget says what a run needed by its model's budget that failed in its first
// forward or backward pass: nothing recorded shows it.
func projectByBudget(doc *report.Document, d *report.Device, r *compare.Result) {
	shown := d.Projection != nil && d.Projection.Missed(classify.Activations.String()) == 0
	if len(d.OOMs) == 0 || r.Foreign || shown {
		return
	}
	o, needs := &d.OOMs[len(d.OOMs)-1], max(r.PeakBytes, r.FirstStep)
	if facts.StepsAfter(d, o.Event) > 0 || len(d.Steps) > 1 || o.Phase == nil || needs <= o.AllocatedBytes+o.RequestedBytes ||
		*o.Phase != classify.Forward.String() && *o.Phase != classify.Backward.String() {
		return
	}
	d.Projection = &report.Projection{NeedsBytes: needs, Basis: "by the model's budget", Missing: []report.Missing{}}
	for _, g := range r.Gaps {
		if (g.Budget-g.Measured)*100 >= needs {
			d.Projection.Missing = append(d.Projection.Missing, report.Missing{Category: g.Category,
				Bytes: g.Budget - g.Measured})
		}
	}
	doc.Verdict.Text += fmt.Sprintf(". By the model's budget the run needs about %s", units.Size(needs))
}
