package diagnose

import (
	"fmt"

	"github.com/vramscope/vramscope/compare"
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
	table.Peak = report.Compared{Name: "peak", Budget: r.Expected.PeakBytes, Measured: &r.Measured.PeakBytes,
		Reason: r.Expected.Note}
	if whole := max(r.PeakBytes, r.FirstStep); r.Expected.Note != nil && whole > r.Expected.PeakBytes {
		why := fmt.Sprintf("%s; the whole step takes %s by the budget", *r.Expected.Note, units.Bytes(whole))
		table.Peak.Reason = &why
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
