package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var ScalarOfBackward = &rules.Rule{
	ID: "scalar-of-backward",
	Doc: `A scalar that a backward pass leaves, in a recording without stacks, where passes are told by their root
gradients, which are scalars, too.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Backward),
	Needs:  []rules.Need{rules.NoStacks, rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		if len(a.Roots) == 0 {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			if a.Timeline.Requested(id) > phases.Scalar {
				return rules.Claim{}
			}
			return rules.As(meaning.Temporary, rules.Guess)
		}
	},
}
