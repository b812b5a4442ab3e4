package weights

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var TemporaryInSetup = &rules.Rule{
	ID:     "temporary-in-setup",
	Doc:    `Made and freed within setup. A guess where it lived for a while.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Setup),
	Needs:  []rules.Need{rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if a.Freed(id)-a.Born(id) > 64 {
				return rules.As(meaning.Temporary, rules.Guess)
			}
			return rules.As(meaning.Temporary, rules.Strong)
		}
	},
}
