package checks

import (
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

var ownTemporaries = Check{
	ID: "own_temporaries", Group: peak, Severity: ByDesign,
	Doc: "What the program's own lines make outside of all passes, and free before the next step is over, takes 15 % " +
		"of the peak and 64 MiB. Where it has the sizes of weights and their state, they are copies that are about to " +
		"be saved. The check needs stacks.",
	Saves: "from the recorded curve without what these lines make.",
	Needs: []facts.Need{ownAtPeak, facts.Collected, facts.Phases}, Run: findOwnTemporaries,
}

// ownAtPeak are the temporaries of the program's own lines at the peak, nothing where they are few.
var ownAtPeak = facts.Named("own temporaries", func(p *facts.Pass) (ids []timeline.AllocationID) {
	var bytes int64
	for id := range p.Each(classify.Temporary) {
		if p.T.AliveAt(id, p.T.Peaks.Allocated.Event) && isOwn(p, id) {
			ids = append(ids, id)
			bytes += p.T.Allocated[id]
		}
	}
	if facts.Share(bytes, p.Dev.AtPeak.AllocatedBytes) < 15 || bytes < 64<<20 || facts.Collected.Of(p).FillPeak() ||
		slices.ContainsFunc(p.Classes.Leaks(), func(l classify.Leak) bool { return l.Defect && p.Mostly(ids, l.Allocations) }) {
		return nil
	}
	return ids
})

func findOwnTemporaries(p *facts.Pass) []Draft {
	ids := ownAtPeak.Of(p)
	if len(ids) == 0 {
		return nil
	}
	var bytes int64
	for _, id := range ids {
		bytes += p.T.Allocated[id]
	}
	made := p.ByStack(ids)
	d := Draft{Finding: report.Finding{Severity: p.Severity(), Confidence: 0.85}, Without: "without them,"}
	for id := range p.Each(classify.Temporary) {
		if made[p.T.Stack(id)] > 0 && isOwn(p, id) {
			d.Spells = append(d.Spells, p.LifeOf(id))
		}
	}
	what, id := "What the program makes for itself takes", "own_temporaries"
	if copied, used := copiesOfWeights(p, ids); copied*5 >= bytes*4 && len(ids) > 1 {
		if used*2 > bytes { // weights that a pass runs with, as the inner steps of meta-learning make them
			return nil
		}
		what, id = "Copies of weights and of their state take", "own_temporaries.copies"
	}
	d.advise(id)
	d.Title = fmt.Sprintf("%s %s of the peak, outside of all passes", what, units.Bytes(bytes))
	d.happens("made in", p.CoveringLine(made))
	d.Evidence = append(d.Evidence, units.Plural(len(ids), "block")+" at the peak, gone soon after")
	return []Draft{d}
}

// isOwn reports whether a temporary was made by lines of the program outside of all
// passes; what a variable holds is none.
func isOwn(p *facts.Pass, id timeline.AllocationID) bool {
	return p.Classes.Phase[id] == classify.OtherPhase && p.T.Stack(id) != 0 && goesInTime(p, id) && !p.HeldBy(id)
}

// copiesOfWeights counts the bytes that have the sizes of weights and their state at
// the peak, and those that are there for the whole of a pass.
func copiesOfWeights(p *facts.Pass, ids []timeline.AllocationID) (copied, used int64) {
	lasting := map[int64]bool{} // requested bytes
	for _, c := range []classify.Category{classify.Weights, classify.OptimizerState} {
		for id := range p.Each(c) {
			if p.T.AliveAt(id, p.T.Peaks.Allocated.Event) {
				lasting[p.T.Requested(id)] = true
			}
		}
	}
	for _, id := range ids {
		if lasting[p.T.Requested(id)] {
			copied += p.T.Allocated[id]
		}
		if seesPass(p, id) {
			used += p.T.Allocated[id]
		}
	}
	return copied, used
}

// goesInTime reports whether an allocation is gone before the step after its own is
// over: what stays longer is kept, whatever it is.
func goesInTime(p *facts.Pass, id timeline.AllocationID) bool {
	steps := p.Classes.Steps
	next := int(p.Classes.Step[id]) + 1
	return len(steps) == 0 || next < len(steps) && p.LifeOf(id).To <= steps[next].LastEvent || next == len(steps) &&
		p.T.FreeRequested[id] != timeline.Never
}

// seesPass reports whether an allocation is there for the whole of a forward or
// backward pass.
func seesPass(p *facts.Pass, id timeline.AllocationID) bool {
	life := p.LifeOf(id)
	for _, s := range facts.Phases.Of(p).Spans {
		if (s.Phase == classify.Forward || s.Phase == classify.Backward) && s.FirstEvent >= life.From && s.LastEvent <= life.To {
			return true
		}
	}
	return false
}
