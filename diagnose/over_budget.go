package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/compare"
	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// overBudget is a finding when the recording holds clearly more than the model
// should need; nil when it doesn't, or when the budget may be of something else.
func overBudget(r *compare.Result, theory *compare.Theory) *report.Finding {
	more := r.Measured.PeakBytes - r.Expected.PeakBytes
	if facts.Share(more, r.Expected.PeakBytes) < 10 || more < 64<<20 || !likeWithLike(r, theory) {
		return nil
	}
	f := &report.Finding{ID: "over_budget", Severity: report.Info, Confidence: 0.7, Evidence: []string{},
		Title: fmt.Sprintf("%s more than the budget of this model and setting: %s measured, %s expected", units.Bytes(more),
			units.Bytes(r.Measured.PeakBytes), units.Bytes(r.Expected.PeakBytes))}
	var first *compare.Gap // of which the reason is known
	for i := range r.Gaps {
		g := &r.Gaps[i]
		if g.Measured-g.Budget < more/20 {
			continue
		}
		text := fmt.Sprintf("%s: %s instead of %s", g.Category, units.Bytes(g.Measured), units.Bytes(g.Budget))
		if g.Reason != nil {
			text += "; " + *g.Reason
			if first == nil {
				first = g
			}
		}
		f.Evidence = append(f.Evidence, text)
	}
	if first != nil {
		f.Confidence = 0.85
		f.Fix = advice.Text("over_budget.reason", "category", first.Category, "reason", *first.Reason)
		f.SavesBytes = new(first.Measured - first.Budget)
	} else {
		f.Fix = advice.Text("over_budget")
	}
	return f
}

// likeWithLike reports whether recording and budget are of the same model and the
// same batch: the weights are all there, once or several times, and the batch
// was given or could be told.
func likeWithLike(r *compare.Result, theory *compare.Theory) bool {
	measured, budget := r.Measured.Categories[classify.Weights.String()], r.Categories[classify.Weights.String()]
	if budget <= 0 || facts.Share(measured, budget) < 95 || facts.Share(measured, budget) > 110 &&
		facts.Share(measured, budget) < 190 {
		return false
	}
	if r.Foreign {
		return false
	}
	batch := fmt.Sprintf("batch %v x ", r.Setting["batch"])
	return theory.Given["batch"] && theory.Given["seq"] ||
		slices.ContainsFunc(r.Inferred, func(s string) bool { return strings.HasPrefix(s, batch) })
}
