package classify

import (
	"github.com/vramscope/vramscope/timeline"
)

// findGuessed marks, without stacks, what setup keeps and may be no weight: where a
// program fails before anything tells its setup from its first pass, all of it; in
// training, a single large block of a size without gradients, which may be data; and
// the second ones of a size of which no optimizer makes state in its steps: it may have
// made them when it was built.
func findGuessed(a *analysis) map[timeline.AllocationID]bool {
	if a.recorded.allocs || a.updates && !a.trains {
		return nil
	}
	guessed := map[timeline.AllocationID]bool{}
	const large = 1 << 20 // bytes
	all := !a.trains && len(a.ooms) > 0 && !setupEnds(a)
	seen := map[int64]int{}
	for i := range a.Category {
		id := timeline.AllocationID(i)
		if a.Phase[id] != Setup || a.born(id) < 0 || !all && !a.outlives(id) {
			continue
		}
		n := a.t.Requested(id)
		seen[n]++
		weights, gradients := a.weightSize[n], a.gradientSize[n]
		if all || a.trains && n >= large && gradients == 0 && weights == 1 && !a.dataset[id] ||
			a.trains && n > scalar && !a.stateSize[n] && weights == 2*gradients && seen[n] > gradients {
			guessed[id] = true
		}
	}
	return guessed
}

// setupEnds tells whether it shows, in a program that fails before its first backward
// pass, where setup ends: most of what is there before the loop are layers with weights
// of the same sizes, or iterations follow of which each frees what it saved.
func setupEnds(a *analysis) bool {
	if l := a.layersOfModel(); l.most {
		return true
	}
	return a.saves && len(a.Steps) > 1
}
