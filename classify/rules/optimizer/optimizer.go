// Package optimizer tells what an optimizer's step makes: its state, what it works in,
// and what it puts in the place of weights and state.
//
// What setup leaves of an optimizer from a checkpoint is found in resumed.go.
package optimizer

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// stepsUntil is the run in which an allocation of an optimizer goes, that in which it
// was made, and that of the next step.
func stepsUntil(a *rules.Facts, id timeline.AllocationID) (gone, made, next int) {
	made = a.Run(a.Born(id))
	return a.Run(a.Freed(id)), made, int(a.NextOptimizer[made])
}

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
	for id := range timeline.AllocationID(a.Timeline.Len()) {
		if a.Phase[id] == meaning.Optimizer && a.Born(id) >= 0 {
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

var TemporaryInStep = &rules.Rule{
	ID: "temporary-in-step",
	Doc: `Made in an optimizer's step and gone before the next one. Without stacks, what is as large as a weight and outlives
the step's own work may be the program's copy of a gradient, by guess.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Optimizer),
	Needs:  []rules.Need{rules.Sizes, remade},
	Begin: func(a *rules.Facts) rules.Says {
		remade, made := remade.Of(a), a.Last // where nothing is made any more
		for made > 0 && a.Events.Action[made-1] != snapshot.Alloc {
			made--
		}
		return func(id timeline.AllocationID) rules.Claim {
			gone, in, next := stepsUntil(a, id)
			switch {
			case gone != in && gone >= next:
				return rules.Claim{}
			case a.Recorded.Allocs && gone > int(a.NextBackward[in]): // a step that makes nothing follows
				return rules.Claim{}
			case len(remade) > 0 && a.Freed(id) >= made && remade[a.Timeline.Requested(id)]:
				return rules.Claim{}
			case gone != in && !a.Recorded.Allocs && rules.WeightSized(a, id):
				return rules.As(meaning.Gradients, rules.Guess)
			}
			return rules.As(meaning.Temporary, rules.Strong)
		}
	},
}
