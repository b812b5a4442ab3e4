package optimizer

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var CopyBeforeStep = &rules.Rule{
	ID: "gradient-copy-before-step",
	Doc: `Made in an optimizer's step, without stacks, as large as a weight and gone before the next step: the
program's own copy of a gradient, by guess.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Optimizer),
	Needs:  []rules.Need{rules.NoStacks, rules.Lives, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			gone, made, next := stepsUntil(a, id)
			if gone == made || gone >= next || !rules.WeightSized(a, id) {
				return rules.Claim{}
			}
			return rules.As(meaning.Gradients, rules.Guess)
		}
	},
}
