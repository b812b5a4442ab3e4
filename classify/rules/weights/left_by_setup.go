package weights

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/classify/rules/older"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var LeftBySetup = &rules.Rule{
	ID: "left-by-setup",
	Doc: `Made before the program's loop and still there when it begins: a weight. Less sure where a stack shows
no module being built, loaded or moved, and a guess where, without stacks, sizes leave room for data or for state. What is twice
as large as a flat buffer of weights is an optimizer's copy of them.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Setup),
	Needs:  []rules.Need{rules.Sizes, older.Gradients, untrainedOfSetup},
	Begin: func(a *rules.Facts) rules.Says {
		guessed := findGuessed(a)
		return func(id timeline.AllocationID) rules.Claim {
			switch {
			case !outlivesSetup(a, id):
				return rules.Claim{}
			case a.Recorded.Allocs && a.Birth(id).Marks&(frames.Weight|frames.InModule) == 0:
				return rules.As(meaning.Weights, rules.Plausible) // nothing in its stack builds or moves a module
			case ofMaster(a, a.Timeline.Requested(id)):
				return rules.As(meaning.OptimizerState, rules.Plausible)
			case len(guessed) > 0 && guessed[id]:
				return rules.As(meaning.Weights, rules.Guess)
			}
			return rules.As(meaning.Weights, rules.Likely)
		}
	},
}

// findGuessed marks, without stacks, what setup keeps and may be no weight: all of it where a
// program fails before anything tells its setup from its first pass; in training,
// what nothing trains beside layers that are frozen, and what isNoWeight says.
//
//worth:off nil
func findGuessed(a *rules.Facts) map[timeline.AllocationID]bool {
	all := !a.Trains && len(a.OOMs) > 0 && !a.LayersOfModel().Most
	if a.Recorded.Allocs || !a.Trains && (a.Updates || !all) {
		return nil
	}
	sizes, gradients := rules.Sizes.Of(a), older.Gradients.Of(a).GradientSize
	guessed := map[timeline.AllocationID]bool{}
	seen, doubtful := map[int64]int{}, untrainedOfSetup.Of(a).doubtful
	for i := range a.Category {
		id := timeline.AllocationID(i)
		kept := all || a.Outlives(id)
		if a.Phase[id] != meaning.Setup || a.Born(id) < 0 || !kept {
			continue
		}
		n := a.Timeline.Requested(id)
		seen[n]++
		if all || doubtful[id] || isNoWeight(sizes, gradients[n], n, seen[n]) {
			guessed[id] = true
		}
	}
	return guessed
}

// isNoWeight reports whether one of so many blocks of a size may be no weight of a model that
// is trained: the second ones of a size of which no optimizer makes state in its steps may be
// state that it made when it was built.
func isNoWeight(a *rules.SizeIndex, gradients int, n int64, nth int) bool {
	weights := a.WeightSize[n]
	return n > phases.Scalar && !a.StateSize[n] && weights == 2*gradients && nth > gradients
}

// ofMaster is true of a size in which the weights of a flat buffer have twice the bytes: an optimizer's copy in 32 bits.
func ofMaster(a *rules.Facts, n int64) bool {
	for flat := range a.Packed {
		if 2*a.Timeline.Requested(flat) == n {
			return true
		}
	}
	return false
}
