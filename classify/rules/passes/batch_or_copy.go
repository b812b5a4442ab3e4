package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var WeightSizedBatch = &rules.Rule{
	ID: "batch-or-copy",
	Doc: `Made where a batch is expected, without stacks, and as large as a weight: a batch, or what the program
makes of its weights' gradients. A guess either way.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Data),
	Needs:  []rules.Need{rules.NoStacks, rules.Lives, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			switch {
			case !rules.WeightSized(a, id):
				return rules.Claim{}
			case copiesGradient(a, id):
				return rules.As(meaning.Gradients, rules.Guess)
			}
			return rules.As(meaning.Inputs, rules.Guess)
		}
	},
}
