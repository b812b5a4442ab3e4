package weights

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var ResumedState = &rules.Rule{
	ID: "resumed-state",
	Doc: `One of two blocks of each weight's size that setup leaves behind the weights, or of one that a file brought
together with weights that were copied: the moments that an optimizer has from a checkpoint. Less sure without stacks.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Setup),
	Needs:  []rules.Need{rules.Lives, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		if len(a.Resumed) == 0 {
			return nil
		}
		sure := uint8(rules.Likely)
		if !a.Recorded.Allocs {
			sure = rules.Plausible
		}
		return func(id timeline.AllocationID) rules.Claim {
			if a.Resumed[id] == meaning.NoDetail {
				return rules.Claim{}
			}
			return rules.KindOf(meaning.OptimizerState, a.Resumed[id], sure)
		}
	},
}
