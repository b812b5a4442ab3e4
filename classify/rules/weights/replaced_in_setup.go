package weights

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var CastAwayWeight = &rules.Rule{
	ID: "replaced-in-setup",
	Doc: `Made and freed in setup: a weight that was packed into a flat buffer, or that went when it had been
converted to another precision.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Setup),
	Needs:  []rules.Need{rules.Lives, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if a.Unpacked[id] || a.Freed(id)-a.Born(id) > 16 && a.CastAway(id) {
				return rules.As(meaning.Weights, rules.Plausible)
			}
			return rules.Claim{}
		}
	},
}
