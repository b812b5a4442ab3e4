package classify

import (
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

var copiedGradient = &Rule{
	ID: "gradient-copy",
	Doc: `Made right after a backward pass, as large as a weight, and there until an optimizer has used it: the
copy of a gradient, as programs make that keep their own copies of the weights.`,
	Signal: ByLife,
	Born:   bornIn(ZeroGrad, OtherPhase),
	Needs:  []Need{Training, Lives, Sizes},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			if !copiesGradient(a, id) {
				return claim{}
			}
			return as(Gradients, plausible)
		}
	},
}

// copiesGradient is true of something as large as a weight that is made right after a
// backward pass and stays until an optimizer has used it.
func copiesGradient(a *analysis, id timeline.AllocationID) bool {
	b, f := a.born(id), a.freed(id)
	r := a.run(b)
	next := int(a.nextOptimizer[r])
	if !weightSized(a, id) || r == 0 || a.runs[r-1].phase != Backward || next == len(a.runs) || f < a.runs[next].first {
		return false
	}
	if int(a.nextBackward[r]) > next {
		return true
	}
	// Another backward follows: a copy to add to, if what it was made from goes next.
	const soon = 16 // events
	for i := b + 1; i < min(b+soon, a.last) && a.events.Action[i] != snapshot.Alloc; i++ {
		if a.events.Action[i] == snapshot.FreeRequested && a.t.Of[i] != timeline.NoAllocation {
			from, n := a.t.Of[i], a.t.Requested(id)
			return a.run(a.born(from)) == r-1 && (a.t.Requested(from) == n || a.t.Requested(from)*2 == n)
		}
	}
	return false
}

var inputWithoutModel = &Rule{
	ID:     "data-without-model",
	Doc:    `Made by the program's own code and kept, in a program in which no model shows: data, by guess.`,
	Signal: ByLife,
	Born:   bornIn(ZeroGrad, OtherPhase),
	Birth:  frames.UserInner,
	Needs:  []Need{Stacks, Lives},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		if !a.plain {
			return nil
		}
		return func(id timeline.AllocationID) claim {
			if !a.outlives(id) || a.birth(id).Marks&frames.UserInner == 0 {
				return claim{}
			}
			return as(Inputs, guess)
		}
	},
}

var temporaryElsewhere = &Rule{
	ID: "temporary-elsewhere",
	Doc: `Made outside of passes and steps: temporary. A guess where it is as large as a weight and stays, since
it may be a copy of one.`,
	Signal: ByLife,
	Born:   bornIn(ZeroGrad, OtherPhase),
	Needs:  []Need{Lives},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			if a.outlives(id) && weightSized(a, id) {
				return as(Temporary, guess) // or a copy of a weight
			}
			return as(Temporary, plausible)
		}
	},
}
