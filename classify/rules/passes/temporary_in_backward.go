package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var TemporaryInBackward = &rules.Rule{
	ID: "temporary-in-backward",
	Doc: `Made and freed within one backward pass, or freed by the next event but one. Less sure, without stacks, where
forward keeps so little that the host may keep the rest: what is brought back lives as long.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Backward),
	Needs:  []rules.Need{Recomputation},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		sure := uint8(byLifeAlone)
		if Recomputation.Of(a).Elsewhere {
			sure = rules.Plausible
		}
		return func(id timeline.AllocationID) rules.Claim {
			b, f := a.Born(id), a.Freed(id)
			if f-b > 2 && f >= a.Runs[a.Run(b)].End {
				return rules.Claim{}
			}
			return rules.As(meaning.Temporary, sure)
		}
	},
}
