package diagnose

import (
	"fmt"

	"github.com/vramscope/vramscope/compare"
	"github.com/vramscope/vramscope/report"
)

// compare puts the budget beside what was measured on this device.
func (e *examination) compare(doc *report.Document) error {
	r, err := compare.Run(e.t, e.classes, e.view, *e.options.Theory)
	if err != nil {
		return err
	}
	doc.Budget = r
	table := &report.Comparison{Device: e.t.Device.Ordinal, Inferred: r.Inferred,
		Model: fmt.Sprintf("%s, %s parameters", r.Model.Type, report.Count(int(r.Model.Parameters)))}
	table.Peak = report.Compared{Name: "peak", Budget: r.PeakBytes, Measured: &r.Measured.PeakBytes}
	for i, p := range r.Phases {
		table.Phases = append(table.Phases, report.Compared{Name: p.Phase, Budget: p.PeakBytes, Measured: r.ByPhase[i].PeakBytes, Reason: r.ByPhase[i].Reason})
	}
	for _, g := range r.Gaps {
		table.Categories = append(table.Categories, report.Compared{Name: g.Category, Budget: g.Budget, Measured: &g.Measured, Reason: g.Reason})
	}
	doc.Comparison = table
	return nil
}
