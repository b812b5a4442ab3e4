package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var RootGradient = &rules.Rule{
	ID:     "root-gradient",
	Doc:    `Made by autograd as the gradient that a backward pass starts from, as the frames say.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Backward),
	Birth:  frames.Rooted,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if a.Birth(id).Marks&frames.Rooted == 0 {
				return rules.Claim{}
			}
			return rules.As(meaning.Temporary, rules.Strong)
		}
	},
}

var GoneAtOnce = &rules.Rule{
	ID:     "gone-at-once",
	Doc:    `Made in a backward pass and freed by the next event but one, before anything could use it further.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Backward),
	Needs:  []rules.Need{rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if a.Freed(id)-a.Born(id) > 2 {
				return rules.Claim{}
			}
			return rules.As(meaning.Temporary, rules.Strong-3)
		}
	},
}

var ClearedInBackward = &rules.Rule{
	ID: "cleared-in-backward",
	Doc: `Made in a backward pass and freed by a zero_grad within it, as an optimizer does that steps inside the
backward pass: a gradient.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Backward),
	Needs:  []rules.Need{rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			f := a.Freed(id)
			if f >= a.Last || !a.IsFused(f) || a.Covered[f] != meaning.HintOf(meaning.ZeroGrad) ||
				f >= a.Runs[a.Run(a.Born(id))].End {
				return rules.Claim{}
			}
			return rules.As(meaning.Gradients, rules.Strong)
		}
	},
}

var RecomputedInBackward = &rules.Rule{
	ID: "recomputed",
	Doc: `Made again in a backward pass by checkpointing, and kept until its layer's gradients are done. Stacks
show the layer's forward below the engine; without them, runs of sizes come back that forward went through.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Backward),
	Needs:  []rules.Need{rules.Lives, rules.Runs},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			f := a.Freed(id)
			if f >= a.Runs[a.Run(a.Born(id))].End {
				return rules.Claim{}
			}
			return recomputedClaim(a, id, f)
		}
	},
}

var TemporaryInBackward = &rules.Rule{
	ID:     "temporary-in-backward",
	Doc:    `Made and freed within one backward pass.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Backward),
	Needs:  []rules.Need{rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if a.Freed(id) >= a.Runs[a.Run(a.Born(id))].End {
				return rules.Claim{}
			}
			return rules.As(meaning.Temporary, rules.Strong-3)
		}
	},
}

var UnfinishedBackward = &rules.Rule{
	ID: "backward-at-end",
	Doc: `Made in the backward pass in which the recording ends, and still there: a gradient where it is as large
as a weight, else a temporary, by guess.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Backward),
	Needs:  []rules.Need{rules.Lives, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			switch {
			case a.Freed(id) < a.Last || a.Runs[a.Run(a.Born(id))].End < a.Last:
				return rules.Claim{}
			case a.WeightSize[a.Timeline.Requested(id)] > 0:
				return rules.As(meaning.Gradients, rules.Plausible)
			}
			return rules.As(meaning.Temporary, rules.Guess)
		}
	},
}

var ScalarOfBackward = &rules.Rule{
	ID: "scalar-of-backward",
	Doc: `A scalar that a backward pass leaves, in a recording without stacks, where passes are told by their root
gradients, which are scalars, too.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Backward),
	Needs:  []rules.Need{rules.NoStacks, rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		if len(a.Roots) == 0 {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			if a.Timeline.Requested(id) > phases.Scalar {
				return rules.Claim{}
			}
			return rules.As(meaning.Temporary, rules.Plausible)
		}
	},
}

var GradientOfGradient = &rules.Rule{
	ID: "saved-for-second-backward",
	Doc: `Made in a backward pass and freed in a later one, and of no weight's size: what the gradient of a
gradient needs (create_graph).`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Backward),
	Needs:  []rules.Need{rules.Lives, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if f := a.Freed(id); f >= a.Last || a.Phases[f] != meaning.Backward || a.WeightSize[a.Timeline.Requested(id)] > 0 {
				return rules.Claim{}
			}
			return rules.As(meaning.Activations, rules.Likely)
		}
	},
}

var GradientByLife = &rules.Rule{
	ID: "gradient",
	Doc: `Made in a backward pass and there after it: the gradient of a weight. Less sure without stacks where no
weight has its size, since nothing shows then where the pass begins.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Backward),
	Needs:  []rules.Need{rules.Lives, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if !a.Recorded.Allocs && !likeWeight(a, id) { // or forward's
				return rules.As(meaning.Gradients, rules.Plausible)
			}
			return rules.As(meaning.Gradients, rules.Strong)
		}
	},
}

// likeWeight is true of what is as large as a weight, in this precision or another, as
// far as all weights are known.
func likeWeight(a *rules.Facts, id timeline.AllocationID) bool {
	n := a.Timeline.Requested(id)
	return a.Timeline.Older() > 0 || n <= phases.Scalar || a.WeightSize[n] > 0 || a.WeightSize[n/2] > 0 || a.WeightHalf[n]
}
