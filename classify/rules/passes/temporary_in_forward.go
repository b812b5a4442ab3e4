package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var TemporaryInForward = &rules.Rule{
	ID: "temporary-in-forward",
	Doc: `Made in a forward pass and gone before any backward pass could use it. A guess in programs that only
run forward where it was there for a good part of the program.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Needs:  []rules.Need{rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			switch {
			case !rules.BeforeBackward(a, id):
				return rules.Claim{}
			case !a.Trains && a.Freed(id) >= a.Stop && (a.Stop-a.Born(id))*4 > a.Stop:
				return rules.As(meaning.Temporary, rules.Guess) // weights, or a graph
			}
			return rules.As(meaning.Temporary, byLifeAlone)
		}
	},
}
