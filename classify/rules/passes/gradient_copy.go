package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
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
