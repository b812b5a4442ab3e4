package classify

import (
	"github.com/vramscope/vramscope/timeline"
)

// findSizes counts the sizes of what looks like weights: they return as
// gradients, as moments, and halved as autocast's copies.
func findSizes(a *analysis) {
	a.weightSize, a.weightHalf, a.stateSize = map[int64]int{}, map[int64]bool{}, map[int64]bool{}
	for i := range a.Category {
		id := timeline.AllocationID(i)
		if a.Phase[id] == Optimizer && a.outlives(id) {
			a.stateSize[a.t.Requested(id)] = true
		}
		older := a.born(id) < 0
		if a.Phase[id] != Setup && !older {
			continue
		}
		if n := a.t.Requested(id); n > scalar && (a.outlives(id) || !older && a.phaseAt(a.freed(id)) != Setup) {
			a.weightSize[n]++
			a.weightHalf[n/2] = true
		}
	}
}
