package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var GoneAtOnce = &rules.Rule{
	ID:     "gone-at-once",
	Doc:    `Made in a backward pass and freed by the next event but one, before anything could use it further.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Backward),
	Needs:  []rules.Need{rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if a.Freed(id)-a.Born(id) > 2 {
				return rules.Claim{}
			}
			return rules.As(meaning.Temporary, sureInBackward(a))
		}
	},
}
