package phases

import (
	"slices"
	"sort"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/snapshot"
)

// Run is a stretch of events in one phase.
type Run struct {
	Phase      meaning.Phase
	First, End int // up to but without end
}

// findRuns cuts the events into runs of equal phase and says for each where the
// next backward pass is. Two passes with nothing of forward between them are two:
// the second may be about the gradients of the first.
func (a *Program) findRuns() {
	a.Runs = nil
	a.RunOf = pages.Make[int32](a.Last)
	for i := 0; i < a.Last; {
		p, j := a.Phases[i], i
		for j < a.Last && (a.Phases[j] == p || a.IsFused(j)) && !(p == meaning.Backward && j > i && a.isRoot(j) &&
			!a.isRoot(j-1)) {
			j++
		}
		of := a.RunOf[i:j]
		for k := range of {
			of[k] = int32(len(a.Runs))
		}
		a.Runs = append(a.Runs, Run{Phase: p, First: i, End: j})
		a.Trains = a.Trains || p == meaning.Backward
		i = j
	}
	a.NextBackward = make([]int32, len(a.Runs)+1)
	a.NextBackward[len(a.Runs)] = int32(len(a.Runs))
	a.NextOptimizer = make([]int32, len(a.Runs))
	next := len(a.Runs)
	for r := len(a.Runs) - 1; r >= 0; r-- {
		if r+1 < len(a.Runs) && a.Runs[r+1].Phase == meaning.Optimizer {
			next = r + 1
		}
		a.NextBackward[r] = a.NextBackward[r+1]
		if a.Runs[r].Phase == meaning.Backward {
			a.NextBackward[r] = int32(r)
		}
		a.NextOptimizer[r] = int32(next)
	}
}

// Rephase does anew what follows from the phases of events.
func (a *Program) Rephase() {
	a.findRuns()
	a.AssignPhases()
	for _, steps := range append(slices.Clip(a.Untrained), a.Steps) {
		for i := range steps {
			steps[i].Phases = a.Spans(steps[i].FirstEvent, steps[i].LastEvent+1)
		}
	}
}

// isRoot tells where autograd makes the gradient that a backward pass starts from.
func (a *Program) isRoot(event int) bool {
	return a.Events.Action[event] == snapshot.Alloc && a.Stacks[a.Events.StackOf(event)].Marks&frames.Rooted != 0
}

// Run of an event; -1 before the trace, the number of runs after it.
func (a *Program) Run(event int) int {
	switch {
	case event < 0:
		return -1
	case event >= a.Last:
		return len(a.Runs)
	}
	return int(a.RunOf[event])
}

// BackwardAfter is the first backward pass at or after a run, nil when there is
// none.
func (a *Program) BackwardAfter(r int) *Run {
	if n := int(a.NextBackward[max(r, 0)]); n < len(a.Runs) {
		return &a.Runs[n]
	}
	return nil
}

// FailedBetween reports whether a request failed between two events: what the
// error unwinds was cut short.
func (a *Program) FailedBetween(b, f int) bool {
	i := sort.SearchInts(a.OOMs, b+1)
	return i < len(a.OOMs) && a.OOMs[i] <= f
}
