// Package weights tells what setup makes and what has the sizes of weights: copies of
// them, casts, buckets, data sets.
//
// Rules of setup stand in setup.go; one that looks for copies of weights, in a file of its own.
package weights

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/classify/rules/older"
	"github.com/vramscope/vramscope/classify/rules/optimizer"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

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
as the state that an optimizer makes for it, or by a function whose name says that it makes weights. What a constructor makes
beside modules that hold the weights isn't known where no optimizer makes state and none of them has its size.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Setup),
	Needs:  []rules.Need{rules.Stacks, rules.Sizes, untrainedOfSetup},
	Proven: 85,
	Begin: func(a *rules.Facts) rules.Says {
		sizes, data, modules := rules.Sizes.Of(a), untrainedOfSetup.Of(a).data, sizesOfModules(a)
		untrained := len(sizes.StateSize) == 0
		return func(id timeline.AllocationID) rules.Claim {
			if data[id] || !outlivesSetup(a, id) || !madeByProgram(a, id) {
				return rules.Claim{}
			}
			n, named := a.Timeline.Requested(id), a.Birth(id).Marks&frames.Named != 0
			alike := modules == nil || modules[n]
			switch {
			case named && untrained && !alike:
				return rules.Silence() // statistics, a table
			case sizes.WeightSize[n] > 1 && (sizes.StateSize[n] || (named || untrained) && alike):
				return rules.As(meaning.Weights, rules.Plausible)
			case n > phases.Scalar && sizes.StateSize[n]: // an optimizer trains it
				return rules.As(meaning.Weights, rules.Likely)
			case named:
				return rules.As(meaning.Weights, rules.Guess)
			}
			return rules.Claim{}
		}
	},
}

// sizesOfModules are the bytes of what modules own when setup is through, nil for a few: where they hold the weights, tensors
// that are only as large as each other are data.
func sizesOfModules(a *rules.Facts) map[int64]bool {
	const few = 4
	sizes, n := map[int64]bool{}, 0
	for id := range timeline.AllocationID(a.Timeline.Len()) {
		if a.Phase[id] == meaning.Setup && a.Birth(id).Marks&frames.Weight != 0 && outlivesSetup(a, id) {
			sizes[a.Timeline.Requested(id)] = true
			n++
		}
	}
	if n < few {
		return nil
	}
	return sizes
}

var OwnInputs = &rules.Rule{
	ID: "data-of-setup",
	Doc: `Left by setup and made by the program's own code outside of all modules, of a size that nothing trains:
a data set or a table on the GPU. So are, where something trains, the few large blocks that no stack shows a module for and
that have neither gradients nor state of their size.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Setup),
	Needs:  []rules.Need{untrainedOfSetup},
	Begin: func(a *rules.Facts) rules.Says {
		data := untrainedOfSetup.Of(a).data
		return func(id timeline.AllocationID) rules.Claim {
			switch {
			case data[id], a.Recorded.Allocs && outlivesSetup(a, id) && madeByProgram(a, id):
				return rules.As(meaning.Inputs, rules.Plausible)
			}
			return rules.Claim{}
		}
	},
}

// untrained is what setup leaves that nothing trains: data, or what is as likely a weight that is frozen.
type untrained struct {
	data, doubtful map[timeline.AllocationID]bool
}

// untrainedOfSetup is little, or it is a model that is frozen. It is data where there is less of it than of what is trained, that
// has gradients or state of its size, unless some layers are trained and others aren't: a second set of all weights, which
// follows the first, is no such layers. A list of tensors as large as each other is as little as one; layers have several
// sizes, or biases.
var untrainedOfSetup = rules.Named("what setup leaves that nothing trains", func(a *rules.Facts) untrained {
	const large, few = 64 << 10, 8 // bytes; blocks
	if !a.Trains {
		return untrained{}
	}
	sizes, gradients, each := rules.Sizes.Of(a), leftByPasses.Of(a).most, older.Gradients.Of(a).GradientSize
	data, of, trained, frozen, small, twice := map[timeline.AllocationID]bool{}, map[int64]int{}, 0, 0, 0, true
	for n, count := range each {
		rest := sizes.WeightSize[n] - count
		twice = twice && (rest == count || n <= phases.Scalar)
		if rest > count || n >= large && rest == count { // running statistics
			frozen += rest
		}
	}
	if twice {
		frozen = 0
	}
	for id := timeline.AllocationID(a.Timeline.Older()); int(id) < a.Timeline.Len(); id++ {
		n := a.Timeline.Requested(id)
		if a.Phase[id] != meaning.Setup || n <= phases.Scalar || !outlivesSetup(a, id) {
			continue
		}
		switch {
		case gradients[n]+gradients[2*n]+gradients[n/2]+each[n] > 0 || sizes.StateSize[n]:
			if n >= large {
				trained++
			}
		case n < large:
			small++
		case a.Birth(id).Marks&(frames.Weight|frames.InModule) == 0:
			data[id] = true
			of[n]++
		}
	}
	blocks, several := len(data), 0
	for _, count := range of {
		several += phases.AsInt(count > 1)
	}
	if several == 1 && small < len(data) {
		blocks = len(of)
	}
	switch {
	case blocks > few:
		return untrained{}
	case blocks > trained && small > 0 || !a.Recorded.Allocs && frozen*4 > trained:
		return untrained{doubtful: data}
	}
	return untrained{data: data}
})

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
		alone := largestByFar(a, guessed)
		return func(id timeline.AllocationID) rules.Claim {
			switch {
			case !outlivesSetup(a, id):
				return rules.Claim{}
			case a.Recorded.Allocs && a.Birth(id).Marks&(frames.Weight|frames.InModule) == 0:
				return rules.As(meaning.Weights, rules.Plausible) // nothing in its stack builds or moves a module
			case ofMaster(a, a.Timeline.Requested(id)):
				return rules.As(meaning.OptimizerState, rules.Plausible)
			case id == alone:
				return rules.Silence()
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
func findGuessed(a *rules.Facts) map[timeline.AllocationID]bool {
	all := !a.Trains && len(a.OOMs) > 0 && !a.LayersOfModel().Most
	if a.Recorded.Allocs || !a.Trains && (a.Updates || !all) {
		return nil
	}
	sizes, gradients := rules.Sizes.Of(a), older.Gradients.Of(a).GradientSize
	guessed := map[timeline.AllocationID]bool{}
	seen, doubtful := map[int64]int{}, untrainedOfSetup.Of(a).doubtful
	for id := range timeline.AllocationID(a.Timeline.Len()) {
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

// largestByFar is the one of what may be no weight, in a program that trains nothing, that is many times as large as all others
// together: a table rather than a layer. NoAllocation where none is.
func largestByFar(a *rules.Facts, guessed map[timeline.AllocationID]bool) timeline.AllocationID {
	const times = 20
	largest, all := timeline.NoAllocation, int64(0)
	for id := range guessed {
		n := a.Timeline.Requested(id)
		if !outlivesSetup(a, id) {
			continue
		}
		if all += n; largest == timeline.NoAllocation || n > a.Timeline.Requested(largest) {
			largest = id
		}
	}
	if a.Trains || largest == timeline.NoAllocation || a.Timeline.Requested(largest)*(times+1) <= all*times {
		return timeline.NoAllocation
	}
	return largest
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

var ResumedState = &rules.Rule{
	ID: "resumed-state",
	Doc: `What setup leaves beside weights: two blocks of each weight's size, in pairs, are the moments that an optimizer has
from a checkpoint. So are two more sets than what is trained, or sets of zeros, where no step makes state of their sizes, and sets
of twice the bytes of all that is trained in 16 bits. Less sure without stacks.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Setup),
	Needs:  []rules.Need{optimizer.Beside},
	Begin:  func(a *rules.Facts) rules.Says { return rules.Each(optimizer.Beside.Of(a)) },
}
