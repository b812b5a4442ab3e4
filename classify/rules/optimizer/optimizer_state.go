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
counters. Less sure where other steps replace what has its size, and without stacks where the step failed, or where
it was made outside of every step that the recording names.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Optimizer),
	Needs:  []rules.Need{remade},
	Begin: func(a *rules.Facts) rules.Says {
		remade := remade.Of(a)
		return func(id timeline.AllocationID) rules.Claim {
			b := a.Born(id)
			switch {
			case a.Timeline.Requested(id) <= phases.Scalar:
				return rules.KindOf(meaning.OptimizerState, meaning.StepCounter, rules.Plausible)
			case len(remade) > 0 && remade[a.Timeline.Requested(id)]:
				return rules.As(meaning.OptimizerState, rules.Plausible)
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

// remade are the sizes of what a step makes and the next one replaces.
var remade = rules.Named("sizes that each step makes anew", func(a *rules.Facts) map[int64]bool {
	sizes := map[int64]bool{}
	for i := range a.Category {
		id := timeline.AllocationID(i)
		if a.Phase[i] == meaning.Optimizer && a.Born(id) >= 0 {
			gone, made, next := stepsUntil(a, id)
			pass := int(a.NextBackward[made]) // between the two steps, which may be several runs
			if gone != made && gone < len(a.Runs) && (gone == next || a.Runs[gone].Phase == meaning.Optimizer && pass < gone &&
				gone < int(a.NextBackward[pass+1])) {
				sizes[a.Timeline.Requested(id)] = true
			}
		}
	}
	return sizes
})
