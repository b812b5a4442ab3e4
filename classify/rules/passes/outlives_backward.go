package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var OutlivesBackward = &rules.Rule{
	ID: "outlives-backward",
	Doc: `Made in a forward pass and still there after its backward pass. Where the pass was cut off or its graph is
kept, it is an activation; else a result. A guess either way. A line that loads batches makes inputs.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Needs:  []rules.Need{rules.Training, rules.Retention},
	Proven: 85,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		retained := rules.Retention.Of(a).Retained
		return func(id timeline.AllocationID) rules.Claim {
			if rules.BeforeBackward(a, id) {
				return rules.Claim{}
			}
			r := a.Run(a.Born(id))
			if a.Loads[a.Timeline.Stack(id)] {
				return rules.As(meaning.Inputs, rules.Plausible)
			}
			if rules.IsCut(a, a.BackwardAfter(r)) || retained[r] {
				return rules.As(meaning.Activations, rules.Guess)
			}
			return rules.As(meaning.Temporary, rules.Guess)
		}
	},
}
