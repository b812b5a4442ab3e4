package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var HeldAtEnd = &rules.Rule{
	ID: "forward-at-end",
	Doc: `Made in a forward pass, and the recording ends before a backward pass or a free says what it is: an
activation, by guess, or, in passes that keep no graph, a result that the program collects.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Proven: 85,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			switch {
			case a.Freed(id) < a.Last || !rules.BeforeBackward(a, id):
				return rules.Claim{}
			case a.UntrainedAt(a.Born(id)) != nil: // collected, in passes that keep no graph
				return rules.As(meaning.Temporary, rules.Guess)
			}
			return rules.As(meaning.Activations, rules.Guess-10)
		}
	},
}
