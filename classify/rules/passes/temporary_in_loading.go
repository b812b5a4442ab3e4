package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var TemporaryInData = &rules.Rule{
	ID:     "temporary-in-loading",
	Doc:    `Made and freed while a batch is loaded.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Data),
	Needs:  []rules.Need{rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if a.Run(a.Freed(id)) != a.Run(a.Born(id)) {
				return rules.Claim{}
			}
			return rules.As(meaning.Temporary, rules.Guess)
		}
	},
}
