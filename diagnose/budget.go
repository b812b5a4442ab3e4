package diagnose

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/compare"
	"github.com/vramscope/vramscope/diagnose/advice"
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
		table.Peak.Reason = new(fmt.Sprintf("%s; the whole step takes %s by the budget%s", *r.Expected.Note, units.Bytes(whole),
			temporaries(r, whole)))
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
	for i := range doc.Devices {
		d := &doc.Devices[i]
		if d.Device != e.T.Device.Ordinal {
			continue
		}
		for _, f := range []*report.Finding{overBudget(r, e.options.Theory), contradicted(r)} {
			if f != nil {
				d.Findings = append(d.Findings, *f)
			}
		}
		rank(d.Findings)
		break
	}
	return nil
}

// temporaries says what the optimizer's step takes beside what it keeps, where the whole step
// peaks there: what a failure before it doesn't show.
func temporaries(r *compare.Result, whole int64) string {
	for _, p := range r.Phases {
		if n := p.Categories[classify.Temporary.String()]; p.PeakBytes == whole && strings.Contains(p.Phase, "optimizer") &&
			10*n > whole {
			return fmt.Sprintf(", %s of it temporaries of the optimizer", units.Bytes(n))
		}
	}
	return ""
}

// contradictions are so many that a finding's title tells.
const contradictions = 3

// contradicted is a finding where the recording shows other settings than a framework's file
// beside it says; nil where it doesn't.
func contradicted(r *compare.Result) *report.Finding {
	if len(r.Differs) == 0 || r.Foreign || r.By == "" {
		return nil
	}
	var words []string
	f := &report.Finding{ID: "recipe_contradicted", Severity: report.Info, Confidence: 0.9, Evidence: []string{}}
	for i, x := range r.Differs {
		if !x.Sure {
			f.Confidence, x.Recorded = 0.6, "probably "+x.Recorded
		}
		f.Evidence = append(f.Evidence, fmt.Sprintf("%s: %s in %s, %s in the recording; %s", x.Field, x.Claimed, r.By, x.Recorded,
			x.Why))
		if i < contradictions {
			words = append(words, fmt.Sprintf("%s %s → %s", x.Field, x.Claimed, x.Recorded))
		}
	}
	rest := ""
	if more := len(r.Differs) - contradictions; more > 0 {
		rest = fmt.Sprintf(" and %d more", more)
	}
	f.Title = fmt.Sprintf("The recording contradicts %s: %s%s", r.By, strings.Join(words, ", "), rest)
	f.Fix = advice.Text("recipe_contradicted", "by", r.By)
	return f
}

// byBudget is the basis of what the model's budget tells.
const byBudget = "by the model's budget"

// projectByBudget says what a run needed by its model's budget that failed in its first
// forward or backward pass: nothing recorded shows it.
func projectByBudget(d *report.Device, r *compare.Result) {
	shown := d.Projection != nil && d.Projection.Missed(classify.Activations.String()) == 0
	if len(d.OOMs) == 0 || r.Foreign || shown {
		return
	}
	o, needs := &d.OOMs[len(d.OOMs)-1], max(r.PeakBytes, r.FirstStep)
	if facts.StepsAfter(d, o.Event) > 0 || len(d.Steps) > 1 || o.Phase == nil || needs <= o.AllocatedBytes+o.RequestedBytes ||
		*o.Phase != classify.Forward.String() && *o.Phase != classify.Backward.String() {
		return
	}
	d.Projection = &report.Projection{NeedsBytes: needs, Basis: byBudget, Missing: []report.Missing{}}
	for _, g := range r.Gaps {
		if (g.Budget-g.Measured)*100 >= needs {
			d.Projection.Missing = append(d.Projection.Missing, report.Missing{Category: g.Category,
				Bytes: g.Budget - g.Measured})
		}
	}
}
