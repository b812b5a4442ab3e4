package classify

import (
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var rootGradient = &Rule{
	ID:     "root-gradient",
	Doc:    `Made by autograd as the gradient that a backward pass starts from, as the frames say.`,
	Signal: ByLife,
	Born:   bornIn(Backward),
	Birth:  frames.Rooted,
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			if a.birth(id).Marks&frames.Rooted == 0 {
				return claim{}
			}
			return as(Temporary, strong)
		}
	},
}

var goneAtOnce = &Rule{
	ID:     "gone-at-once",
	Doc:    `Made in a backward pass and freed by the next event but one, before anything could use it further.`,
	Signal: ByLife,
	Born:   bornIn(Backward),
	Needs:  []Need{Lives},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			if a.freed(id)-a.born(id) > 2 {
				return claim{}
			}
			return as(Temporary, strong-3)
		}
	},
}

var clearedInBackward = &Rule{
	ID: "cleared-in-backward",
	Doc: `Made in a backward pass and freed by a zero_grad within it, as an optimizer does that steps inside the
backward pass: a gradient.`,
	Signal: ByLife,
	Born:   bornIn(Backward),
	Needs:  []Need{Lives},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			f := a.freed(id)
			if f >= a.last || !a.isFused(f) || a.covered[f] != hintOf(ZeroGrad) || f >= a.runs[a.run(a.born(id))].end {
				return claim{}
			}
			return as(Gradients, strong)
		}
	},
}

var recomputedInBackward = &Rule{
	ID: "recomputed",
	Doc: `Made again in a backward pass by checkpointing, and kept until its layer's gradients are done. Stacks
show the layer's forward below the engine; without them, runs of sizes come back that forward went through.`,
	Signal: ByLife,
	Born:   bornIn(Backward),
	Needs:  []Need{Lives, Runs},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			f := a.freed(id)
			if f >= a.runs[a.run(a.born(id))].end {
				return claim{}
			}
			return recomputedClaim(a, id, f)
		}
	},
}

var temporaryInBackward = &Rule{
	ID:     "temporary-in-backward",
	Doc:    `Made and freed within one backward pass.`,
	Signal: ByLife,
	Born:   bornIn(Backward),
	Needs:  []Need{Lives},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			if a.freed(id) >= a.runs[a.run(a.born(id))].end {
				return claim{}
			}
			return as(Temporary, strong-3)
		}
	},
}

var unfinishedBackward = &Rule{
	ID: "backward-at-end",
	Doc: `Made in the backward pass in which the recording ends, and still there: a gradient where it is as large
as a weight, else a temporary, by guess.`,
	Signal: ByLife,
	Born:   bornIn(Backward),
	Needs:  []Need{Lives, Sizes},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			switch {
			case a.freed(id) < a.last || a.runs[a.run(a.born(id))].end < a.last:
				return claim{}
			case a.weightSize[a.t.Requested(id)] > 0:
				return as(Gradients, plausible)
			}
			return as(Temporary, guess)
		}
	},
}

var scalarOfBackward = &Rule{
	ID: "scalar-of-backward",
	Doc: `A scalar that a backward pass leaves, in a recording without stacks, where passes are told by their root
gradients, which are scalars, too.`,
	Signal: ByLife,
	Born:   bornIn(Backward),
	Needs:  []Need{NoStacks, Lives},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		if len(a.roots) == 0 {
			return nil
		}
		return func(id timeline.AllocationID) claim {
			if a.t.Requested(id) > scalar {
				return claim{}
			}
			return as(Temporary, plausible)
		}
	},
}

var gradientOfGradient = &Rule{
	ID: "saved-for-second-backward",
	Doc: `Made in a backward pass and freed in a later one, and of no weight's size: what the gradient of a
gradient needs (create_graph).`,
	Signal: ByLife,
	Born:   bornIn(Backward),
	Needs:  []Need{Lives, Sizes},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			if f := a.freed(id); f >= a.last || a.phases[f] != Backward || a.weightSize[a.t.Requested(id)] > 0 {
				return claim{}
			}
			return as(Activations, likely)
		}
	},
}

var gradientByLife = &Rule{
	ID: "gradient",
	Doc: `Made in a backward pass and there after it: the gradient of a weight. Less sure without stacks where no
weight has its size, since nothing shows then where the pass begins.`,
	Signal: ByLife,
	Born:   bornIn(Backward),
	Needs:  []Need{Lives, Sizes},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			if !a.recorded.allocs && !likeWeight(a, id) { // or forward's
				return as(Gradients, plausible)
			}
			return as(Gradients, strong)
		}
	},
}

// likeWeight is true of what is as large as a weight, in this precision or another, as
// far as all weights are known.
func likeWeight(a *analysis, id timeline.AllocationID) bool {
	n := a.t.Requested(id)
	return a.t.Older() > 0 || n <= scalar || a.weightSize[n] > 0 || a.weightSize[n/2] > 0 || a.weightHalf[n]
}
