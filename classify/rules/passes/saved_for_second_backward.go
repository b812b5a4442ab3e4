package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var GradientOfGradient = &rules.Rule{
	ID: "saved-for-second-backward",
	Doc: `Made in a backward pass and freed in a later one, and of no weight's size: what the gradient of a
gradient needs (create_graph).`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Backward),
	Needs:  []rules.Need{rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		sizes := rules.Sizes.Of(a)
		return func(id timeline.AllocationID) rules.Claim {
			f, n := a.Freed(id), a.Timeline.Requested(id)
			if f >= a.Last || a.Phases[f] != meaning.Backward || sizes.WeightSize[n] > 0 {
				return rules.Claim{}
			}
			return rules.As(meaning.Activations, rules.Likely)
		}
	},
}
