package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var CutByFailure = &rules.Rule{
	ID: "cut-by-failure",
	Doc: `Made in a forward pass that a failed request cut short, and gone with it: an activation, by guess, since
the backward pass that would tell never came.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Forward),
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		if len(a.OOMs) == 0 {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			if !rules.BeforeBackward(a, id) || !a.FailedBetween(a.Born(id), a.Freed(id)) {
				return rules.Claim{}
			}
			return rules.As(meaning.Activations, rules.Guess)
		}
	},
}
