package batch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// gap collects the runs of one configuration.
type gap struct {
	budget, measured []int64
	link             report.IndexLink // to the one with the largest difference
	largest          int64
}

// addBudget takes the comparison of a run in, if it has one.
func (b *indexBuilder) addBudget(r *Report) {
	c := r.Document.BudgetFigures()
	if c == nil || c.Measured.PeakBytes == 0 {
		return
	}
	s := &c.Setting
	setting := fmt.Sprintf("%d x %d tokens, %s", s.Batch, s.Sequence, s.Precision)
	if s.Inference {
		setting += ", inference"
	} else {
		setting += ", " + s.Optimizer
		if s.Checkpointing != "none" && s.Checkpointing != "" {
			setting += ", " + s.Checkpointing + " checkpointing"
		}
	}
	key := [2]string{fmt.Sprintf("%s, %s parameters", c.Model.Type, units.Count(int(c.Model.Parameters))), setting}
	g := b.budgets[key]
	if g == nil {
		g = &gap{largest: -1}
		b.budgets[key] = g
	}
	g.budget, g.measured = append(g.budget, c.Expected.PeakBytes), append(g.measured, c.Measured.PeakBytes)
	if d := units.Abs(c.Measured.PeakBytes - c.Expected.PeakBytes); d > g.largest {
		g.largest, g.link = d, report.IndexLink{Path: r.Path, Name: r.Name}
	}
}

// gaps are the configurations, the largest difference first.
func (b *indexBuilder) gaps() []report.BudgetGap {
	var out []report.BudgetGap
	keys := slices.SortedFunc(maps.Keys(b.budgets), func(x, y [2]string) int {
		return cmp.Or(cmp.Compare(x[0], y[0]),
			cmp.Compare(x[1], y[1]))
	})
	for _, key := range keys {
		g := b.budgets[key]
		out = append(out, report.BudgetGap{Model: key[0], Setting: key[1], Runs: len(g.budget), Budget: median(g.budget),
			Measured: median(g.measured), Link: g.link})
	}
	slices.SortStableFunc(out, func(a, b report.BudgetGap) int {
		return cmp.Compare(units.Abs(b.Measured-b.Budget), units.Abs(a.Measured-a.Budget))
	})
	return out
}
