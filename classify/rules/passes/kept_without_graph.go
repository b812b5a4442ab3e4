package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var KeptWithoutGraph = &rules.Rule{
	ID: "kept-without-graph",
	Doc: `Made by a forward pass of a program that neither trains nor keeps graphs, and still there at the end: a
result that the program holds.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Needs:  []rules.Need{rules.Saved},
	Proven: 85,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		if a.Trains || rules.Saved.Of(a).Saves {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			if a.Freed(id) < a.Last {
				return rules.Claim{}
			}
			return rules.As(meaning.Temporary, rules.Guess)
		}
	},
}
