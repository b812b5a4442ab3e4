package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var BatchByLife = &rules.Rule{
	ID: "batch",
	Doc: `Made between two passes, where batches are loaded, and used by the next pass. Less sure where the
recording began within a step; zeros that outlive their step are the program's own.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Data),
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		sure := uint8(rules.Likely)                      // or what results are collected in
		if a.Recorded.Allocs && a.Timeline.Older() > 0 { // or what is kept of a step, in a recording that begins in one
			sure = rules.Plausible
		}
		return func(id timeline.AllocationID) rules.Claim {
			n := int(a.Step[id])
			if a.Birth(id).Marks&frames.Filled != 0 && n >= 0 && n < len(a.Steps) && a.Freed(id) > a.Steps[n].LastEvent {
				return rules.As(meaning.Temporary, rules.Guess) // zeros, which later steps are written into
			}
			return rules.As(meaning.Inputs, sure)
		}
	},
}
