package optimizer

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var TemporaryInStep = &rules.Rule{
	ID:     "temporary-in-step",
	Doc:    `Made in an optimizer's step and gone before the next one.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Optimizer),
	Needs:  []rules.Need{rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if gone, made, next := stepsUntil(a, id); gone != made && gone >= next {
				return rules.Claim{}
			}
			return rules.As(meaning.Temporary, rules.Strong)
		}
	},
}
