package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var ClearedInBackward = inBackward(rules.Rule{
	ID: "cleared-in-backward",
	Doc: `Made in a backward pass and freed by a zero_grad within it, as an optimizer does that steps inside the
backward pass: a gradient.`,
	Claim: func(a *rules.Facts, id timeline.AllocationID) rules.Claim {
		f := a.Freed(id)
		cleared := f < a.Last && a.IsFused(f) && a.Covered[f] == meaning.HintOf(meaning.ZeroGrad)
		return rules.When(cleared && f < a.Runs[a.Run(a.Born(id))].End, rules.As(meaning.Gradients, rules.Strong))
	},
})

var TemporaryInBackward = inBackward(rules.Rule{
	ID: "temporary-in-backward",
	Doc: `Made and freed within one backward pass, or freed by the next event but one. Less sure, without stacks, where
forward keeps so little that the host may keep the rest: what is brought back lives as long.`,
	Needs: []rules.Need{Recomputation},
	Begin: func(a *rules.Facts) rules.Says {
		sure := uint8(byLifeAlone)
		if Recomputation.Of(a).Elsewhere {
			sure = rules.Plausible
		}
		return func(id timeline.AllocationID) rules.Claim {
			b, f := a.Born(id), a.Freed(id)
			return rules.When(f-b <= 2 || f < a.Runs[a.Run(b)].End, rules.As(meaning.Temporary, sure))
		}
	},
})

var UnfinishedBackward = inBackward(rules.Rule{
	ID: "backward-at-end",
	Doc: `Made in the backward pass in which the recording ends, and still there: an activation where checkpointing
makes it again, a gradient where it is as large as a weight, else a temporary, by guess.`,
	Needs: []rules.Need{rules.Sizes},
	Begin: func(a *rules.Facts) rules.Says {
		sizes := rules.Sizes.Of(a)
		return func(id timeline.AllocationID) rules.Claim {
			switch {
			case a.Freed(id) < a.Last || a.Runs[a.Run(a.Born(id))].End < a.Last:
				return rules.Claim{}
			case rebuilt(a.Birth(id).Marks):
				return rules.KindOf(meaning.Activations, meaning.Recomputed, rules.Likely)
			case sizes.WeightSize[a.Timeline.Requested(id)] > 0:
				return rules.As(meaning.Gradients, rules.Plausible)
			}
			return rules.As(meaning.Temporary, rules.Guess)
		}
	},
})

// rebuilt reports whether checkpointing runs a module again there, and no pass through its graph.
func rebuilt(birth frames.Marks) bool {
	return birth&frames.Rebuild != 0 && birth&(frames.InModule|frames.Nested) == frames.InModule
}

var GradientOfGradient = inBackward(rules.Rule{
	ID: "saved-for-second-backward",
	Doc: `Made in a backward pass and freed in a later one, or of no weight's size in a pass that leaves the whole graph: what
the gradient of a gradient needs (create_graph). There are no more gradients of a size than weights; of a weight's size, after a
pass that frees its graph, it is more likely a gradient.`,
	Needs: []rules.Need{rules.Training, rules.Sizes, rules.Retention, keptGraphs},
	Begin: func(a *rules.Facts) rules.Says {
		type kind struct {
			run  int
			size int64
		}
		sizes, doubled, kept, many := rules.Sizes.Of(a), doubledGraphs(a), keptGraphs.Of(a), map[kind]int{}
		goesInAnother := func(id timeline.AllocationID) bool {
			f := a.Freed(id)
			return f < a.Last && a.Phases[f] == meaning.Backward && !a.IsFused(f)
		}
		for id := timeline.AllocationID(a.Timeline.Older()); int(id) < a.Timeline.Len(); id++ {
			n := a.Timeline.Requested(id)
			if a.Phase[id] == meaning.Backward && sizes.WeightSize[n] > 0 && goesInAnother(id) && rules.OutlivesPass(a, id) {
				many[kind{a.Run(a.Born(id)), n}]++
			}
		}
		return func(id timeline.AllocationID) rules.Claim {
			n, run := a.Timeline.Requested(id), a.Run(a.Born(id))
			switch {
			case a.Birth(id).Marks&frames.UserInner != 0: // a hook's
			case goesInAnother(id):
				if c := many[kind{run, n}]; sizes.WeightSize[n] >= c && c > 0 && a.Timeline.Older() == 0 && !kept[run] {
					// the engine holds what grad() gave until its next pass
					return rules.As(meaning.Gradients, rules.Plausible)
				}
				return rules.As(meaning.Activations, rules.Likely)
			case n > phases.Scalar && sizes.WeightSize[n] == 0 && doubled[run]:
				return rules.As(meaning.Activations, rules.Likely)
			}
			return rules.Claim{}
		}
	},
})

// keptGraphs are the backward passes after which a good part of their graph is there.
var keptGraphs = rules.Named("backward passes that leave a good part of their graph", func(a *rules.Facts) map[int]bool {
	kept := map[int]bool{}
	if !a.Trains {
		return kept
	}
	for r, retained := range rules.Retention.Of(a).Retained {
		if retained && a.Runs[r].Phase == meaning.Forward {
			kept[int(a.NextBackward[r])] = true
		}
	}
	return kept
})

// doubledGraphs are the backward passes that leave the whole graph and several blocks of no weight's size, in recordings that
// show all weights: what a leaf alone gets as a gradient is one block.
func doubledGraphs(a *rules.Facts) map[int]bool {
	const several = 4
	sizes, others, doubled := rules.Sizes.Of(a), map[int]int{}, map[int]bool{}
	for id := range timeline.AllocationID(a.Timeline.Len()) {
		if n := a.Timeline.Requested(id); a.Phase[id] == meaning.Backward && a.Born(id) >= 0 && n > phases.Scalar &&
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

var GradientByLife = inBackward(rules.Rule{
	ID: "gradient",
	Doc: `Made in a backward pass and there after it: the gradient of a weight. Less sure where a weight of its size would have
another precision, where the pass keeps its graph and no optimizer uses it, and without stacks where no weight has its size. With
stacks, what a hook makes of no weight's size is temporary.`,
	Needs: []rules.Need{rules.Sizes, keptGraphs},
	Begin: func(a *rules.Facts) rules.Says {
		sizes, kept := rules.Sizes.Of(a), keptGraphs.Of(a)
		return func(id timeline.AllocationID) rules.Claim {
			n, r := a.Timeline.Requested(id), a.Run(a.Born(id))
			user := a.Birth(id).Marks&frames.UserInner != 0 // the program's own code, in a hook
			switch step := int(a.NextOptimizer[r]); {
			case kept[r] && step < len(a.Runs) && a.Freed(id) < a.Runs[step].First:
				return rules.As(meaning.Gradients, rules.Plausible) // of gradients, or what they are worked out from
			case a.Timeline.Older() > 0 || sizes.WeightSize[n] > 0: // not all weights are known, or one has its size
				return rules.As(meaning.Gradients, rules.Strong)
			case n <= phases.Scalar || sizes.WeightSize[n/2] > 0 || sizes.WeightHalf[n]: // or in another precision
				return rules.As(meaning.Gradients, rules.Likely)
			case a.Recorded.Allocs && user:
				return rules.As(meaning.Temporary, rules.Likely)
			}
			return rules.As(meaning.Gradients, rules.Guess) // or what a graph of gradients saves, or forward's
		}
	},
})
