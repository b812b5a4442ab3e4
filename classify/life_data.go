package classify

import "github.com/vramscope/vramscope/timeline"

var temporaryInData = &Rule{
	ID:     "temporary-in-loading",
	Doc:    `Made and freed while a batch is loaded.`,
	Signal: ByLife,
	Born:   bornIn(Data),
	Needs:  []Need{Lives},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			if a.run(a.freed(id)) != a.run(a.born(id)) {
				return claim{}
			}
			return as(Temporary, plausible)
		}
	},
}

var weightSizedBatch = &Rule{
	ID: "batch-or-copy",
	Doc: `Made where a batch is expected, without stacks, and as large as a weight: a batch, or what the program
makes of its weights' gradients. A guess either way.`,
	Signal: ByLife,
	Born:   bornIn(Data),
	Needs:  []Need{NoStacks, Lives, Sizes},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			switch {
			case !weightSized(a, id):
				return claim{}
			case copiesGradient(a, id):
				return as(Gradients, guess)
			}
			return as(Inputs, guess)
		}
	},
}

var batchByLife = &Rule{
	ID: "batch",
	Doc: `Made between two passes, where batches are loaded, and used by the next pass. Less sure where the
recording began within a step, or has no stacks.`,
	Signal: ByLife,
	Born:   bornIn(Data),
	Needs:  []Need{Lives},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		sure := uint8(likely + 7)
		switch {
		case !a.recorded.allocs: // or the first that forward keeps
			sure = likely
		case a.t.Older() > 0: // or what is kept of a step, in a recording that begins in the middle of one
			sure = plausible
		}
		return func(timeline.AllocationID) claim { return as(Inputs, sure) }
	},
}
