package rules

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/timeline"
)

// FindSizes counts the sizes of what looks like weights: they return as
// gradients, as moments, and halved as autocast's copies.
func FindSizes(a *Facts) {
	a.WeightSize, a.WeightHalf, a.StateSize = map[int64]int{}, map[int64]bool{}, map[int64]bool{}
	for i := range a.Category {
		id := timeline.AllocationID(i)
		if a.Phase[id] == meaning.Optimizer && a.Outlives(id) {
			a.StateSize[a.Timeline.Requested(id)] = true
		}
		older := a.Born(id) < 0
		if a.Phase[id] != meaning.Setup && !older {
			continue
		}
		if n := a.Timeline.Requested(id); n > phases.Scalar && (a.Outlives(id) || !older &&
			a.PhaseAt(a.Freed(id)) != meaning.Setup) {
			a.WeightSize[n]++
			a.WeightHalf[n/2] = true
		}
	}
}
