package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var GradientByLife = &rules.Rule{
	ID: "gradient",
	Doc: `Made in a backward pass and there after it: the gradient of a weight. Less sure without stacks where no
weight has its size, since nothing shows then where the pass begins; with them, what a hook makes of no weight's size is
temporary.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Backward),
	Needs:  []rules.Need{rules.Lives, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			switch {
			case likeWeight(a, id):
			case !a.Recorded.Allocs: // or forward's
				return rules.As(meaning.Gradients, rules.Plausible)
			case a.Birth(id).Marks&frames.UserInner != 0: // the program's own code, in a hook
				return rules.As(meaning.Temporary, rules.Likely)
			}
			return rules.As(meaning.Gradients, rules.Strong)
		}
	},
}

// likeWeight is true of what is as large as a weight, in this precision or another, as
// far as all weights are known.
func likeWeight(a *rules.Facts, id timeline.AllocationID) bool {
	n := a.Timeline.Requested(id)
	return a.Timeline.Older() > 0 || n <= phases.Scalar || a.WeightSize[n] > 0 || a.WeightSize[n/2] > 0 || a.WeightHalf[n]
}
