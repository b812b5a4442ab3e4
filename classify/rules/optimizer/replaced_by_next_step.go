package optimizer

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var ReplacedByNextStep = &rules.Rule{
	ID: "replaced-by-next-step",
	Doc: `Made in an optimizer's step and freed in the next one, which puts another in its place: state that is
made anew in each step; scalars are temporary.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Optimizer),
	Needs:  []rules.Need{rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			gone, _, next := stepsUntil(a, id)
			switch {
			case gone >= len(a.Runs) || gone != next:
				return rules.Claim{}
			case a.Timeline.Requested(id) <= phases.Scalar:
				return rules.As(meaning.Temporary, rules.Plausible)
			}
			return rules.As(meaning.OptimizerState, rules.Plausible)
		}
	},
}
