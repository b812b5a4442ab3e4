package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var ResultOfPass = &rules.Rule{
	ID: "result-of-pass",
	Doc: `Made in a forward pass that nothing trains, and there for a good part of its step or beyond its
validation: a result that the program holds until the next; without stacks, what a step begins with is a batch, by guess.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Proven: 85,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		spans := !a.Trains && !a.Recorded.Allocs
		if !spans && len(a.Untrained) == 0 {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			b, f := a.Born(id), a.Freed(id)
			spansIt := spans && spansStep(a, id, f-b)
			switch {
			case spansIt && a.Timeline.Older() == 0 && b == a.Steps[a.Step[id]].FirstEvent:
				return rules.As(meaning.Inputs, rules.Guess)
			case rules.BeforeBackward(a, id) && (spansIt || f > a.UntrainedEnd(b)):
				return rules.As(meaning.Temporary, rules.Plausible)
			}
			return rules.Claim{}
		}
	},
}

// spansStep is true of a number of events that are a good part of the step in which
// an allocation was made.
//
//worth:off false
func spansStep(a *rules.Facts, id timeline.AllocationID, events int) bool {
	n := a.Step[id]
	return n >= 0 && events*3 > a.Steps[n].LastEvent-a.Steps[n].FirstEvent
}
