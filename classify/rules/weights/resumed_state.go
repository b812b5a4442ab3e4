package weights

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var ResumedState = &rules.Rule{
	ID: "resumed-state",
	Doc: `What setup leaves beside weights. Two blocks of each weight's size, in pairs, or one that a file brought with weights
that were copied: the moments that an optimizer has from a checkpoint. Blocks twice as large as weights in half precision, or
as the flat buffer of all: copies in full precision, and sums of gradients before them. Less sure without stacks.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Setup),
	Needs:  []rules.Need{rules.Lives, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		if len(a.Beside) == 0 {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim { return a.Beside[id] }
	},
}
