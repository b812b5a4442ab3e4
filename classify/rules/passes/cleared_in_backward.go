package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var ClearedInBackward = &rules.Rule{
	ID: "cleared-in-backward",
	Doc: `Made in a backward pass and freed by a zero_grad within it, as an optimizer does that steps inside the
backward pass: a gradient.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Backward),
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			f := a.Freed(id)
			if f >= a.Last || !a.IsFused(f) || a.Covered[f] != meaning.HintOf(meaning.ZeroGrad) ||
				f >= a.Runs[a.Run(a.Born(id))].End {
				return rules.Claim{}
			}
			return rules.As(meaning.Gradients, rules.Strong)
		}
	},
}
