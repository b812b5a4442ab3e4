package weights

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var PackedWeights = &rules.Rule{
	ID: "packed-weights",
	Doc: `A flat buffer made in setup, right after which allocations go that have its size together: the weights
that sharded training packs.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Setup),
	Needs:  []rules.Need{rules.Lives, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return rules.Among(a.Packed, rules.As(meaning.Weights, rules.Likely))
	},
}
