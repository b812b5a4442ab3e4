package weights

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var PackedWeights = &rules.Rule{
	ID: "packed-weights",
	Doc: `A flat buffer made in setup, right after which allocations go that have its size together: the weights
that sharded training packs.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Setup),
	Needs:  []rules.Need{rules.Lives, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		if len(a.Packed) == 0 {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			if !a.Packed[id] {
				return rules.Claim{}
			}
			return rules.As(meaning.Weights, rules.Likely)
		}
	},
}

var ResumedState = &rules.Rule{
	ID: "resumed-state",
	Doc: `One of two blocks of each weight's size that setup leaves behind the weights, in pairs: the moments that
an optimizer has from a checkpoint.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Setup),
	Needs:  []rules.Need{rules.Lives, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		if len(a.Resumed) == 0 {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			if a.Resumed[id] == meaning.NoDetail {
				return rules.Claim{}
			}
			return rules.KindOf(meaning.OptimizerState, a.Resumed[id], rules.Likely)
		}
	},
}

// outlivesSetup is true of what setup leaves.
func outlivesSetup(a *rules.Facts, id timeline.AllocationID) bool {
	f := a.Freed(id)
	return f >= a.Last || a.PhaseAt(f) != meaning.Setup
}

// madeByProgram is true of what the program's own code makes, outside of all modules.
func madeByProgram(a *rules.Facts, id timeline.AllocationID) bool {
	m := a.Birth(id).Marks
	return m&frames.UserInner != 0 && m&(frames.Weight|frames.InModule) == 0
}

var OwnWeights = &rules.Rule{
	ID: "own-weight",
	Doc: `Left by setup, made by the program's own code outside of all modules, and as large as other weights or
as the state that an optimizer makes for it, or by a function whose name says that it makes weights.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Setup),
	Needs:  []rules.Need{rules.Stacks, rules.Lives, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if !outlivesSetup(a, id) || !madeByProgram(a, id) {
				return rules.Claim{}
			}
			named := a.Birth(id).Marks&frames.Named != 0
			switch n := a.Timeline.Requested(id); {
			case a.WeightSize[n] > 1 && (len(a.StateSize) == 0 || a.StateSize[n] || named): // else a pair of tables
				return rules.As(meaning.Weights, rules.Plausible)
			case n > phases.Scalar && a.StateSize[n]: // an optimizer trains it
				return rules.As(meaning.Weights, rules.Likely)
			case named:
				return rules.As(meaning.Weights, rules.Guess)
			}
			return rules.Claim{}
		}
	},
}

var OwnInputs = &rules.Rule{
	ID: "data-of-setup",
	Doc: `Left by setup and made by the program's own code outside of all modules, of a size that nothing trains:
a data set or a table on the GPU.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Setup),
	Needs:  []rules.Need{rules.Stacks, rules.Lives, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if !outlivesSetup(a, id) || !madeByProgram(a, id) {
				return rules.Claim{}
			}
			return rules.As(meaning.Inputs, rules.Plausible)
		}
	},
}

var LeftBySetup = &rules.Rule{
	ID: "left-by-setup",
	Doc: `Made before the program's loop and still there when it begins: a weight. Less sure where a stack shows
no module being built, loaded or moved, and a guess where, without stacks, sizes leave room for data or for state.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Setup),
	Needs:  []rules.Need{rules.Lives, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		guessed := findGuessed(a)
		return func(id timeline.AllocationID) rules.Claim {
			switch {
			case !outlivesSetup(a, id):
				return rules.Claim{}
			case a.Recorded.Allocs && a.Birth(id).Marks&(frames.Weight|frames.InModule) == 0:
				return rules.As(meaning.Weights, rules.Plausible) // nothing in its stack builds or moves a module
			case len(guessed) > 0 && guessed[id]:
				return rules.As(meaning.Weights, rules.Guess)
			}
			return rules.As(meaning.Weights, rules.Likely)
		}
	},
}

var CastAwayWeight = &rules.Rule{
	ID: "replaced-in-setup",
	Doc: `Made and freed in setup: a weight that was packed into a flat buffer, or that went when it had been
converted to another precision.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Setup),
	Needs:  []rules.Need{rules.Lives, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if a.Unpacked[id] || a.Freed(id)-a.Born(id) > 16 && a.CastAway(id) {
				return rules.As(meaning.Weights, rules.Plausible)
			}
			return rules.Claim{}
		}
	},
}

var TemporaryInSetup = &rules.Rule{
	ID:     "temporary-in-setup",
	Doc:    `Made and freed within setup. A guess where it lived for a while.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Setup),
	Needs:  []rules.Need{rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if a.Freed(id)-a.Born(id) > 64 {
				return rules.As(meaning.Temporary, rules.Guess)
			}
			return rules.As(meaning.Temporary, rules.Strong)
		}
	},
}
