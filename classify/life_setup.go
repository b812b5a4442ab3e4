package classify

import (
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var packedWeights = &Rule{
	ID: "packed-weights",
	Doc: `A flat buffer made in setup, right after which allocations go that have its size together: the weights
that sharded training packs.`,
	Signal: ByLife,
	Born:   bornIn(Setup),
	Needs:  []Need{Lives, Sizes},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		if len(a.packed) == 0 {
			return nil
		}
		return func(id timeline.AllocationID) claim {
			if !a.packed[id] {
				return claim{}
			}
			return as(Weights, likely)
		}
	},
}

var resumedState = &Rule{
	ID: "resumed-state",
	Doc: `One of two blocks of each weight's size that setup leaves behind the weights, in pairs: the moments that
an optimizer has from a checkpoint.`,
	Signal: ByLife,
	Born:   bornIn(Setup),
	Needs:  []Need{Lives, Sizes},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		if len(a.resumed) == 0 {
			return nil
		}
		return func(id timeline.AllocationID) claim {
			if a.resumed[id] == NoDetail {
				return claim{}
			}
			return kindOf(OptimizerState, a.resumed[id], likely)
		}
	},
}

// outlivesSetup is true of what setup leaves.
func outlivesSetup(a *analysis, id timeline.AllocationID) bool {
	f := a.freed(id)
	return f >= a.last || a.phaseAt(f) != Setup
}

// madeByProgram is true of what the program's own code makes, outside of all modules.
func madeByProgram(a *analysis, id timeline.AllocationID) bool {
	m := a.birth(id).Marks
	return m&frames.UserInner != 0 && m&(frames.Weight|frames.InModule) == 0
}

var ownWeights = &Rule{
	ID: "own-weight",
	Doc: `Left by setup, made by the program's own code outside of all modules, and as large as other weights or
as the state that an optimizer makes for it, or by a function whose name says that it makes weights.`,
	Signal: ByLife,
	Born:   bornIn(Setup),
	Needs:  []Need{Stacks, Lives, Sizes},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			if !outlivesSetup(a, id) || !madeByProgram(a, id) {
				return claim{}
			}
			named := a.birth(id).Marks&frames.Named != 0
			switch n := a.t.Requested(id); {
			case a.weightSize[n] > 1 && (len(a.stateSize) == 0 || a.stateSize[n] || named): // else a pair of tables
				return as(Weights, plausible)
			case n > scalar && a.stateSize[n]: // an optimizer trains it
				return as(Weights, likely)
			case named:
				return as(Weights, guess)
			}
			return claim{}
		}
	},
}

var ownInputs = &Rule{
	ID: "data-of-setup",
	Doc: `Left by setup and made by the program's own code outside of all modules, of a size that nothing trains:
a data set or a table on the GPU.`,
	Signal: ByLife,
	Born:   bornIn(Setup),
	Needs:  []Need{Stacks, Lives, Sizes},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			if !outlivesSetup(a, id) || !madeByProgram(a, id) {
				return claim{}
			}
			return as(Inputs, plausible)
		}
	},
}

var leftBySetup = &Rule{
	ID: "left-by-setup",
	Doc: `Made before the program's loop and still there when it begins: a weight. Less sure where a stack shows
no module being built, loaded or moved, and a guess where, without stacks, sizes leave room for data or for state.`,
	Signal: ByLife,
	Born:   bornIn(Setup),
	Needs:  []Need{Lives, Sizes},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		guessed := findGuessed(a)
		return func(id timeline.AllocationID) claim {
			switch {
			case !outlivesSetup(a, id):
				return claim{}
			case a.recorded.allocs && a.birth(id).Marks&(frames.Weight|frames.InModule) == 0:
				return as(Weights, plausible) // nothing in its stack builds or moves a module
			case len(guessed) > 0 && guessed[id]:
				return as(Weights, guess)
			}
			return as(Weights, likely)
		}
	},
}

var castAwayWeight = &Rule{
	ID: "replaced-in-setup",
	Doc: `Made and freed in setup: a weight that was packed into a flat buffer, or that went when it had been
converted to another precision.`,
	Signal: ByLife,
	Born:   bornIn(Setup),
	Needs:  []Need{Lives, Sizes},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			if a.unpacked[id] || a.freed(id)-a.born(id) > 16 && a.castAway(id) {
				return as(Weights, plausible)
			}
			return claim{}
		}
	},
}

var temporaryInSetup = &Rule{
	ID:     "temporary-in-setup",
	Doc:    `Made and freed within setup. A guess where it lived for a while.`,
	Signal: ByLife,
	Born:   bornIn(Setup),
	Needs:  []Need{Lives},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			if a.freed(id)-a.born(id) > 64 {
				return as(Temporary, guess)
			}
			return as(Temporary, strong)
		}
	},
}
