package passes

import (
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var GradientByLife = &rules.Rule{
	ID: "gradient",
	Doc: `Made in a backward pass and there after it: the gradient of a weight. Less sure where a weight of its size would have
another precision, and without stacks where no weight has its size, since nothing shows then where the pass begins;
with them, what a hook makes of no weight's size is temporary. A guess where more outlive it than there are weights of
the size: the others are copies that a hook keeps.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Backward),
	Needs:  []rules.Need{rules.Lives, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		copies := findGradientCopies(a)
		return func(id timeline.AllocationID) rules.Claim {
			n := a.Timeline.Requested(id)
			user := a.Birth(id).Marks&frames.UserInner != 0 // the program's own code, in a hook
			switch copied, ok := copies[n]; {
			case ok && (user || copied[id] && !a.Recorded.Allocs):
				return rules.As(meaning.Temporary, rules.Guess)
			case ok && !a.Recorded.Allocs:
				return rules.As(meaning.Gradients, rules.Guess)
			case a.Timeline.Older() > 0 || a.WeightSize[n] > 0: // not all weights are known, or one has its size
			case n <= phases.Scalar || a.WeightSize[n/2] > 0 || a.WeightHalf[n]: // or in another precision
				return rules.As(meaning.Gradients, rules.Likely)
			case !a.Recorded.Allocs: // or forward's
				return rules.As(meaning.Gradients, rules.Plausible)
			case user:
				return rules.As(meaning.Temporary, rules.Likely)
			}
			return rules.As(meaning.Gradients, rules.Strong)
		}
	},
}

// findGradientCopies finds, by size, what backward passes leave though as many gradients
// are there as weights: copies that a hook keeps.
//
//worth:off nil
func findGradientCopies(a *rules.Facts) map[int64]map[timeline.AllocationID]bool {
	const few = 8
	there, copies, found := map[int64][]timeline.AllocationID{}, map[int64]map[timeline.AllocationID]bool{}, 0
	for i := range a.Category {
		id := timeline.AllocationID(i)
		n := a.Timeline.Requested(id)
		b := a.Born(id)
		if a.Phase[id] != meaning.Backward || b < 0 || n <= phases.Scalar || a.WeightSize[n] == 0 || !rules.OutlivesPass(a, id) {
			continue
		}
		there[n] = slices.DeleteFunc(there[n], func(old timeline.AllocationID) bool { return a.Freed(old) < b })
		if there[n] = append(there[n], id); len(there[n]) <= a.WeightSize[n] {
			continue
		}
		if copies[n] == nil {
			copies[n] = map[timeline.AllocationID]bool{}
		}
		copies[n][id] = true
		if first := there[n][len(there[n])-1-a.WeightSize[n]]; a.Run(a.Born(first)) == a.Run(b) { // else of another model
			found++
		}
	}
	if found < few || a.Timeline.Older() > 0 {
		return nil
	}
	return copies
}
