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
	Needs:  []rules.Need{rules.Lives, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if f := a.Freed(id); f >= a.Last || a.Phases[f] != meaning.Backward || a.WeightSize[a.Timeline.Requested(id)] > 0 {
				return rules.Claim{}
			}
			return rules.As(meaning.Activations, rules.Likely)
		}
	},
}
