package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var BatchByLife = &rules.Rule{
	ID: "batch",
	Doc: `Made between two passes, where batches are loaded, and used by the next pass. Less sure where the
recording began within a step, or has no stacks.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Data),
	Needs:  []rules.Need{rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		sure := uint8(rules.Likely + 7)
		switch {
		case !a.Recorded.Allocs: // or the first that forward keeps
			sure = rules.Likely
		case a.Timeline.Older() > 0: // or what is kept of a step, in a recording that begins in the middle of one
			sure = rules.Plausible
		}
		return func(timeline.AllocationID) rules.Claim { return rules.As(meaning.Inputs, sure) }
	},
}
