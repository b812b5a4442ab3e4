package classify

import (
	"sort"

	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/snapshot"
)

// run is a stretch of events in one phase.
type run struct {
	phase      Phase
	first, end int // up to but without end
}

// findRuns cuts the events into runs of equal phase and says for each where the
// next backward pass is. Two passes with nothing of forward between them are two:
// the second may be about the gradients of the first.
func (a *Program) findRuns() {
	a.runOf = pages.Make[int32](a.last)
	for i := 0; i < a.last; {
		p, j := a.phases[i], i
		for j < a.last && (a.phases[j] == p || a.isFused(j)) && !(p == Backward && j > i && a.isRoot(j) && !a.isRoot(j-1)) {
			j++
		}
		of := a.runOf[i:j]
		for k := range of {
			of[k] = int32(len(a.runs))
		}
		a.runs = append(a.runs, run{phase: p, first: i, end: j})
		a.trains = a.trains || p == Backward
		i = j
	}
	a.nextBackward = make([]int32, len(a.runs)+1)
	a.nextBackward[len(a.runs)] = int32(len(a.runs))
	a.nextOptimizer = make([]int32, len(a.runs))
	next := len(a.runs)
	for r := len(a.runs) - 1; r >= 0; r-- {
		if r+1 < len(a.runs) && a.runs[r+1].phase == Optimizer {
			next = r + 1
		}
		a.nextBackward[r] = a.nextBackward[r+1]
		if a.runs[r].phase == Backward {
			a.nextBackward[r] = int32(r)
		}
		a.nextOptimizer[r] = int32(next)
	}
}

// isRoot tells where autograd makes the gradient that a backward pass starts from.
func (a *Program) isRoot(event int) bool {
	return a.events.Action[event] == snapshot.Alloc && a.stacks[a.events.StackOf(event)].Marks&frames.Rooted != 0
}

// run of an event; -1 before the trace, the number of runs after it.
func (a *Program) run(event int) int {
	switch {
	case event < 0:
		return -1
	case event >= a.last:
		return len(a.runs)
	}
	return int(a.runOf[event])
}

// backwardAfter is the first backward pass at or after a run, nil when there is
// none.
func (a *Program) backwardAfter(r int) *run {
	if n := int(a.nextBackward[max(r, 0)]); n < len(a.runs) {
		return &a.runs[n]
	}
	return nil
}

// failedBetween tells whether a request failed between two events: what the
// error unwinds was cut short.
func (a *Program) failedBetween(b, f int) bool {
	i := sort.SearchInts(a.ooms, b+1)
	return i < len(a.ooms) && a.ooms[i] <= f
}
