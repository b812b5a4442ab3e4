package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var TemporaryInForward = &rules.Rule{
	ID: "temporary-in-forward",
	Doc: `Made in a forward pass and gone before any backward pass could use it. A guess in programs that only run forward
where it was there for a good part of the program, and without stacks where it is as large as a weight and lived for a while.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Needs:  []rules.Need{rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		const awhile = 64 // events
		return func(id timeline.AllocationID) rules.Claim {
			switch {
			case !rules.BeforeBackward(a, id):
				return rules.Claim{}
			case !a.Trains && a.Freed(id) >= a.Stop && (a.Stop-a.Born(id))*4 > a.Stop:
				return rules.As(meaning.Temporary, rules.Guess) // weights, or a graph
			case !a.Recorded.Allocs && a.Freed(id)-a.Born(id) > awhile && rules.WeightSized(a, id):
				return rules.As(meaning.Temporary, rules.Guess) // or saved in a pass that isn't seen as one
			}
			return rules.As(meaning.Temporary, byLifeAlone)
		}
	},
}
