package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

var TemporaryInForward = &rules.Rule{
	ID: "temporary-in-forward",
	Doc: `Made in a forward pass and gone before any backward pass could use it. A guess in programs that only run forward
where it was there for a good part of the program, and without stacks where it is as large as a weight and lived for a while.
Less sure where it goes together with many others, as a graph does that nobody trains on.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Needs:  []rules.Need{rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		const awhile, many = 64, 16 // events; frees in a row, of which each may be two events
		return func(id timeline.AllocationID) rules.Claim {
			switch {
			case !rules.BeforeBackward(a, id):
				return rules.Claim{}
			case !a.Trains && a.Freed(id) >= a.Stop && (a.Stop-a.Born(id))*4 > a.Stop:
				return rules.As(meaning.Temporary, rules.Guess) // weights, or a graph
			case !a.Recorded.Allocs && a.Freed(id)-a.Born(id) > awhile && rules.WeightSized(a, id):
				return rules.As(meaning.Temporary, rules.Guess) // or saved in a pass that isn't seen as one
			case a.Trains && inARow(a, a.Freed(id), many):
				return rules.As(meaning.Temporary, rules.Plausible)
			}
			return rules.As(meaning.Temporary, byLifeAlone)
		}
	},
}

// inARow reports whether a free is one of so many events without an allocation in between.
func inARow(a *rules.Facts, freed, many int) bool {
	first, end := freed, freed
	for first > 0 && end-first < many && a.Events.Action[first-1] != snapshot.Alloc {
		first--
	}
	for end < a.Last && end-first < many && a.Events.Action[end] != snapshot.Alloc {
		end++
	}
	return end-first >= many
}
