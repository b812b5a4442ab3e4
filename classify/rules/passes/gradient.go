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
	Doc: `Made in a backward pass and there after it: the gradient of a weight. Less sure where a weight of its size would have
another precision, and without stacks where no weight has its size. With stacks, what a hook makes of no weight's size is
temporary.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Backward),
	Needs:  []rules.Need{rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		sizes := rules.Sizes.Of(a)
		return func(id timeline.AllocationID) rules.Claim {
			n := a.Timeline.Requested(id)
			user := a.Birth(id).Marks&frames.UserInner != 0 // the program's own code, in a hook
			switch {
			case a.Timeline.Older() > 0 || sizes.WeightSize[n] > 0: // not all weights are known, or one has its size
				return rules.As(meaning.Gradients, rules.Strong)
			case n <= phases.Scalar || sizes.WeightSize[n/2] > 0 || sizes.WeightHalf[n]: // or in another precision
				return rules.As(meaning.Gradients, rules.Likely)
			case a.Recorded.Allocs && user:
				return rules.As(meaning.Temporary, rules.Likely)
			}
			return rules.As(meaning.Gradients, rules.Guess) // or what a graph of gradients saves, or forward's
		}
	},
}
