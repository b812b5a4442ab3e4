package classify

import (
	"slices"

	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// findRemade prepares what tells weights and state that are made anew in the loop,
// where no module shows them: in recordings without stacks, and in programs that
// have none.
func findRemade(a *analysis) {
	if a.recorded.allocs && a.all&frames.InModule != 0 || len(a.runs) == 0 {
		return
	}
	a.gradientIn = map[int64][]int32{}
	for i := range a.Category {
		id := timeline.AllocationID(i)
		if a.Phase[id] != Backward || a.born(id) < 0 || !outlivesPass(a, id) {
			continue
		}
		n, r := a.t.Requested(id), a.runOf[a.born(id)]
		if in := a.gradientIn[n]; len(in) == 0 || in[len(in)-1] != r {
			a.gradientIn[n] = append(in, r)
		}
	}
	var of [NumPhases]int
	for _, r := range a.runs {
		of[r.phase]++
	}
	a.nextStep = a.nextOptimizer
	if of[Optimizer]*2 < of[Backward] { // steps that make nothing
		a.nextStep = a.nextBackward
	}
}

// remadeClaim judges weights and state that are made anew in the loop: a block is
// there after two of an optimizer's steps, and gradients come in its size. State
// takes the place of earlier state at once.
func remadeClaim(a *analysis, id timeline.AllocationID, r int) claim {
	const large = 1 << 16 // bytes
	n := a.t.Requested(id)
	if a.gradientIn == nil || n < large {
		return claim{}
	}
	after := r // the second step
	for range 2 {
		if after = int(a.nextStep[after]) + 1; after >= len(a.runs) {
			return claim{}
		}
	}
	if _, found := slices.BinarySearch(a.gradientIn[n], a.nextBackward[r]); !found || a.freed(id) < a.runs[after].first {
		return claim{}
	}
	if takesPlace(a, id, r) {
		return as(OptimizerState, plausible)
	}
	return as(Weights, plausible)
}

// takesPlace tells whether an allocation has hardly been made when one of about
// its size goes that was there in a step before.
func takesPlace(a *analysis, id timeline.AllocationID, r int) bool {
	n := a.t.Requested(id)
	for i := a.born(id) + 1; i < a.last && a.events.Action[i] != snapshot.Alloc; i++ {
		if a.events.Action[i] != snapshot.FreeRequested || a.t.Of[i] == timeline.NoAllocation {
			continue
		}
		old := a.t.Of[i]
		m, b := a.t.Requested(old), a.born(old)
		if step := int(a.nextStep[max(a.run(b), 0)]); step < r && m*4 >= n && n*4 >= m {
			return true
		}
	}
	return false
}

var remadeInLoop = &Rule{
	ID: "remade-in-loop",
	Doc: `Made in the program's loop where no module shows it, there after two of an optimizer's steps, and
gradients come in its size: a weight that is made anew; or state, where it takes the place of earlier state at once.`,
	Signal: ByLife,
	Born:   bornIn(Setup, Data, Forward, Generate, ZeroGrad, OtherPhase),
	Needs:  []Need{Lives, Sizes},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		if a.gradientIn == nil {
			return nil
		}
		return func(id timeline.AllocationID) claim {
			switch a.Phase[id] {
			case Setup:
				if !outlivesSetup(a, id) || !madeByProgram(a, id) {
					return claim{}
				}
			case Forward, Generate:
				if a.retains {
					return claim{}
				}
			}
			return remadeClaim(a, id, a.run(a.born(id)))
		}
	},
}
