package optimizer

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var StateByLife = &rules.Rule{
	ID: "optimizer-state",
	Doc: `Made in an optimizer's step and kept: its state, usually made in the first step. Scalars are step
counters. Less sure without stacks where the step failed, or where it was made outside of every step that the
recording names.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Optimizer),
	Needs:  []rules.Need{rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			b := a.Born(id)
			switch {
			case a.Timeline.Requested(id) <= phases.Scalar:
				return rules.KindOf(meaning.OptimizerState, meaning.StepCounter, rules.Plausible)
			case a.Recorded.Allocs:
			case len(a.Windows) > 0 && a.Covered[b] == 0: // made outside of all steps that are named
				return rules.As(meaning.OptimizerState, rules.Guess)
			case a.FailedBetween(b, a.Runs[a.Run(b)].End): // or what the step that failed worked in
				return rules.As(meaning.OptimizerState, rules.Plausible)
			}
			return rules.As(meaning.OptimizerState, rules.Strong)
		}
	},
}
