package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var TemporaryElsewhere = &rules.Rule{
	ID: "temporary-elsewhere",
	Doc: `Made outside of passes and steps, or made and freed in setup: temporary. A guess where it is as large as a weight and
stays, since it may be a copy of one.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Setup, meaning.ZeroGrad, meaning.OtherPhase),
	Needs:  []rules.Need{rules.Sizes},
	Proven: 85,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if a.Outlives(id) && rules.WeightSized(a, id) {
				return rules.As(meaning.Temporary, rules.Guess) // or a copy of a weight
			}
			return rules.As(meaning.Temporary, rules.Plausible)
		}
	},
}
