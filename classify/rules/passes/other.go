package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

var CopiedGradient = &rules.Rule{
	ID: "gradient-copy",
	Doc: `Made right after a backward pass, as large as a weight, and there until an optimizer has used it: the
copy of a gradient, as programs make that keep their own copies of the weights.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.ZeroGrad, meaning.OtherPhase),
	Needs:  []rules.Need{rules.Training, rules.Lives, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if !copiesGradient(a, id) {
				return rules.Claim{}
			}
			return rules.As(meaning.Gradients, rules.Plausible)
		}
	},
}

// copiesGradient is true of something as large as a weight that is made right after a
// backward pass and stays until an optimizer has used it.
func copiesGradient(a *rules.Facts, id timeline.AllocationID) bool {
	b, f := a.Born(id), a.Freed(id)
	r := a.Run(b)
	next := int(a.NextOptimizer[r])
	if !rules.WeightSized(a, id) || r == 0 || a.Runs[r-1].Phase != meaning.Backward || next == len(a.Runs) ||
		f < a.Runs[next].First {
		return false
	}
	if int(a.NextBackward[r]) > next {
		return true
	}
	// Another backward follows: a copy to add to, if what it was made from goes next.
	const soon = 16 // events
	for i := b + 1; i < min(b+soon, a.Last) && a.Events.Action[i] != snapshot.Alloc; i++ {
		if a.Events.Action[i] == snapshot.FreeRequested && a.Timeline.Of[i] != timeline.NoAllocation {
			from, n := a.Timeline.Of[i], a.Timeline.Requested(id)
			return a.Run(a.Born(from)) == r-1 && (a.Timeline.Requested(from) == n || a.Timeline.Requested(from)*2 == n)
		}
	}
	return false
}

var InputWithoutModel = &rules.Rule{
	ID:     "data-without-model",
	Doc:    `Made by the program's own code and kept, in a program in which no model shows: data, by guess.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.ZeroGrad, meaning.OtherPhase),
	Birth:  frames.UserInner,
	Needs:  []rules.Need{rules.Stacks, rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		if !a.Plain {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			if !a.Outlives(id) || a.Birth(id).Marks&frames.UserInner == 0 {
				return rules.Claim{}
			}
			return rules.As(meaning.Inputs, rules.Guess)
		}
	},
}

var TemporaryElsewhere = &rules.Rule{
	ID: "temporary-elsewhere",
	Doc: `Made outside of passes and steps: temporary. A guess where it is as large as a weight and stays, since
it may be a copy of one.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.ZeroGrad, meaning.OtherPhase),
	Needs:  []rules.Need{rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if a.Outlives(id) && rules.WeightSized(a, id) {
				return rules.As(meaning.Temporary, rules.Guess) // or a copy of a weight
			}
			return rules.As(meaning.Temporary, rules.Plausible)
		}
	},
}
