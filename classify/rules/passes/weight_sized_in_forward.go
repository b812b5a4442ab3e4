package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var WeightSizedInForward = &rules.Rule{
	ID: "weight-sized-in-forward",
	Doc: `Made where a forward pass is expected, without stacks, as large as a weight and gone before backward:
temporary, or the copy of a gradient that an optimizer makes which nothing shows.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Needs:  []rules.Need{rules.NoStacks, rules.Lives, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if a.Freed(id)-a.Born(id) <= 64 || !rules.WeightSized(a, id) || !rules.BeforeBackward(a, id) {
				return rules.Claim{}
			}
			return rules.As(meaning.Temporary, rules.Guess)
		}
	},
}
