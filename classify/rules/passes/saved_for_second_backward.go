package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var GradientOfGradient = &rules.Rule{
	ID: "saved-for-second-backward",
	Doc: `Made in a backward pass and freed in a later one, or of no weight's size in a pass that leaves the whole graph: what
the gradient of a gradient needs (create_graph). There are no more gradients of a size than weights; of a weight's size, after a
pass that frees its graph, it is more likely a gradient.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Backward),
	Needs:  []rules.Need{rules.Training, rules.Sizes, rules.Retention},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		sizes, doubled, kept := rules.Sizes.Of(a), doubledGraphs(a), map[int]bool{}
		for r, retained := range rules.Retention.Of(a).Retained {
			if pass := int(a.NextBackward[r]); retained && a.Runs[r].Phase == meaning.Forward {
				kept[pass] = true
			}
		}
		return func(id timeline.AllocationID) rules.Claim {
			f, n := a.Freed(id), a.Timeline.Requested(id)
			switch {
			case a.Birth(id).Marks&frames.UserInner != 0: // a hook's
			case f < a.Last && a.Phases[f] == meaning.Backward && !a.IsFused(f):
				if sizes.WeightSize[n] > 0 && a.Timeline.Older() == 0 && !kept[a.Run(a.Born(id))] {
					// the engine holds what grad() gave until its next pass
					return rules.As(meaning.Gradients, rules.Plausible)
				}
				return rules.As(meaning.Activations, rules.Likely)
			case n > phases.Scalar && sizes.WeightSize[n] == 0 && doubled[a.Run(a.Born(id))]:
				return rules.As(meaning.Activations, rules.Likely)
			}
			return rules.Claim{}
		}
	},
}

// doubledGraphs are the backward passes that leave the whole graph and several blocks of no weight's size, in recordings that
// show all weights: what a leaf alone gets as a gradient is one block.
//
//worth:off nil
func doubledGraphs(a *rules.Facts) map[int]bool {
	const several = 4
	sizes, others, doubled := rules.Sizes.Of(a), map[int]int{}, map[int]bool{}
	for i := range a.Category {
		id := timeline.AllocationID(i)
		if n := a.Timeline.Requested(id); a.Phase[i] == meaning.Backward && a.Born(id) >= 0 && n > phases.Scalar &&
			sizes.WeightSize[n] == 0 && rules.OutlivesPass(a, id) {
			others[a.Run(a.Born(id))]++
		}
	}
	for r, whole := range rules.Retention.Of(a).Whole {
		if pass := int(a.NextBackward[r]); whole && a.Timeline.Older() == 0 && others[pass] >= several {
			doubled[pass] = true
		}
	}
	return doubled
}
