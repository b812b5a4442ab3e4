package rules

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/timeline"
)

// SizeIndex counts allocations by requested bytes, as far as they look like weights, or
// like what comes of weights: they return as gradients, as moments, and halved as
// autocast's copies.
type SizeIndex struct {
	WeightSize map[int64]int  // what looks like weights
	WeightHalf map[int64]bool // half of them
	StateSize  map[int64]bool // what an optimizer makes and keeps
}

// Sizes are those of weights.
var Sizes = Named("sizes of weights", findSizes)

func findSizes(a *Facts) *SizeIndex {
	x := &SizeIndex{map[int64]int{}, map[int64]bool{}, map[int64]bool{}}
	for i := range a.Category {
		id := timeline.AllocationID(i)
		if a.Phase[id] == meaning.Optimizer && a.Outlives(id) {
			x.StateSize[a.Timeline.Requested(id)] = true
		}
		older := a.Born(id) < 0
		if a.Phase[id] != meaning.Setup && !older {
			continue
		}
		if n := a.Timeline.Requested(id); n > phases.Scalar && (a.Outlives(id) || !older &&
			a.PhaseAt(a.Freed(id)) != meaning.Setup) {
			x.WeightSize[n]++
			x.WeightHalf[n/2] = true
		}
	}
	return x
}
