package checks

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/replay/passes"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

var gradientsUnused = Check{
	ID: "gradients_unused", Group: mistakes, Severity: "warning",
	Doc: "Gradients (at least 16 MiB and 2 % of the peak) are never freed, while others of the same step are freed and " +
		"made again. Their weights belong to no optimizer: a teacher, a critic or a frozen part whose forward pass " +
		"builds a graph.",
	Saves: "from the recorded curve without these gradients and what is saved for them.",
	Needs: []facts.Need{facts.Phases, facts.MadeAgain, unusedGradients}, Run: findGradientsUnused,
}

// unusedGradients are the gradients that outlive the last optimizer steps while others are
// made again, and how many bytes of those there are.
var unusedGradients = facts.Named("gradients that no optimizer uses", func(p *facts.Pass) (x struct {
	ids     []timeline.AllocationID
	bytes   int64
	renewed int64
}) {
	last := afterOptimizer(facts.Phases.Of(p).Spans, unusedSteps) // made before, and there after all of the last ones
	if last < 0 {
		return x
	}
	clears, earlier := clearedSteps(p), facts.MadeAgain.Of(p).Allocations()
	listed := map[timeline.AllocationID]bool{} // made anew in each step and kept, as a hook does: a weight's stay the same
	for i := range p.Classes.Leaks() {
		if l := &p.Classes.Leaks()[i]; l.Kind == classify.GrowingList && l.Defect {
			for _, id := range l.Allocations {
				listed[id] = true
			}
		}
	}
	for id := range p.Each(classify.Gradients) {
		if listed[id] || p.Classes.Detail[id] != classify.NoDetail || p.T.Born[id] == timeline.Never ||
			p.Classes.Phase[id] != classify.Backward {
			continue
		}
		if _, ok := slices.BinarySearch(earlier, id); ok {
			continue // of an earlier model
		}
		switch {
		case p.T.FreeRequested[id] != timeline.Never:
			if int(p.T.Born[id]) >= last {
				x.renewed += p.T.Allocated[id]
			}
		case int(p.T.Born[id]) < last && clears[p.Classes.Step[id]]:
			x.bytes += p.T.Allocated[id]
			x.ids = append(x.ids, id)
		}
	}
	return x
})

// unusedSteps are the steps of an optimizer that gradients outlive which it doesn't use.
const unusedSteps = 3

func findGradientsUnused(p *facts.Pass) []Draft {
	x := unusedGradients.Of(p)
	if x.renewed == 0 || facts.Share(x.bytes, p.Dev.AtPeak.AllocatedBytes) < 2 || x.bytes < 16<<20 {
		return nil
	}
	d := Draft{Finding: report.Finding{Severity: report.Warning, Confidence: 0.75}, Without: "without these gradients,"}
	for _, id := range x.ids {
		d.Spells = append(d.Spells, p.LifeOf(id))
	}
	graphs := savedFor(p, x.ids)
	kept := p.AtPeak(graphs, classify.Activations)
	d.Spells = append(d.Spells, p.AfterUse(graphs)...)
	saved := ""
	d.Evidence = []string{fmt.Sprintf("%s were made before the last %d optimizer steps and never freed; the others are let go "+
		"and made again", units.Plural(len(d.Spells), "gradient"), unusedSteps)}
	if kept > 0 {
		saved = fmt.Sprintf(", and %s of activations are saved for them", units.Bytes(kept))
		d.Without = "without these gradients and their graph,"
	}
	d.Title = fmt.Sprintf("Gradients that no optimizer uses: %s stay for good%s", units.Bytes(x.bytes), saved)
	d.advise("gradients_unused")
	return []Draft{d}
}

// savedFor are the activations that only gradients which no optimizer uses need: a backward pass comes to them last, so
// they are the first that a pass saves, as many as were left when the first of these gradients was made.
func savedFor(p *facts.Pass, gradients []timeline.AllocationID) (ids []timeline.AllocationID) {
	list, err := passes.Of(p.Classes)
	if err != nil {
		return nil
	}
	first := int(p.T.Born[slices.MinFunc(gradients, func(a, b timeline.AllocationID) int {
		return cmp.Compare(p.T.Born[a], p.T.Born[b])
	})])
	count, of := 0, 0
	for i := range list {
		if x := &list[i]; x.Backward <= first && first <= x.End {
			for k, id := range x.Saved {
				if p.T.AliveAt(id, first) && k == count {
					count++
				}
			}
			of = len(x.Saved)
		}
	}
	for i := range list {
		if saved := list[i].Saved; len(saved) == of {
			ids = append(ids, saved[:count]...)
		}
	}
	return ids
}

// clearedSteps are the steps of whose gradients some are let go later. Where all of
// them stay, they are those of a model that isn't trained any more, as the folds of a
// cross-validation leave them.
func clearedSteps(p *facts.Pass) map[int32]bool {
	steps := map[int32]bool{}
	for id := range p.Each(classify.Gradients) {
		if p.Classes.Phase[id] == classify.Backward && p.T.FreeRequested[id] != timeline.Never {
			steps[p.Classes.Step[id]] = true
		}
	}
	return steps
}

// afterOptimizer is the first event after the first of the last optimizer steps, -1
// where there are fewer.
func afterOptimizer(spans []classify.PhaseSpan, steps int) int {
	for i := len(spans) - 2; i >= 0; i-- {
		if spans[i].Phase == classify.Optimizer {
			if steps--; steps == 0 {
				return spans[i+1].FirstEvent
			}
		}
	}
	return -1
}
