package weights

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var ResumedState = &rules.Rule{
	ID: "resumed-state",
	Doc: `One of two blocks of each weight's size that setup leaves behind the weights, in pairs: the moments that
an optimizer has from a checkpoint.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Setup),
	Needs:  []rules.Need{rules.Lives, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		if len(a.Resumed) == 0 {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			if a.Resumed[id] == meaning.NoDetail {
				return rules.Claim{}
			}
			return rules.KindOf(meaning.OptimizerState, a.Resumed[id], rules.Likely)
		}
	},
}
