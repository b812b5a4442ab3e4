package classify

import (
	"math"
	"slices"

	"github.com/vramscope/vramscope/timeline"
)

// findReplaced judges weights and state that every step of an optimizer makes anew
// and puts in the place of those before (p.data = p.data - …), and what such an
// optimizer began with.
func findReplaced(a *analysis) {
	if !a.trains {
		return
	}
	before := successions(a)
	added := addedTo(a)
	if len(before) == 0 && added == nil {
		return
	}
	taken := map[timeline.AllocationID]bool{}
	for _, old := range before {
		taken[old] = true
	}
	bySize := map[int64][]timeline.AllocationID{} // what was there before the first step, the earliest first
	for i := range a.Category {
		id := timeline.AllocationID(i)
		n := a.t.Requested(id)
		if n <= scalar || !early(a, id) || a.born(id) < 0 && a.t.Stack(id) != 0 {
			continue
		}
		if taken[id] || a.outlives(id) || a.born(id) < 0 && lasts(a, id) {
			bySize[n] = append(bySize[n], id)
		}
	}
	for n, ids := range bySize {
		judgeReplaced(a, ids, taken, a.gradientSize[n], added[n])
	}
	var ids []timeline.AllocationID
	for id := range before {
		ids = append(ids, id)
	}
	slices.Sort(ids) // what takes a place is younger than what was there
	for _, id := range ids {
		if c, ok := a.replaced.get(before[id]); ok {
			a.replaced.put(id, c)
		}
	}
	agree(a, ids)
}

// agree has what one line makes be what most of it is: the last parameter's
// forerunners go somewhere else than all others'.
func agree(a *analysis, ids []timeline.AllocationID) {
	lines := innermost(a)
	votes := map[line]map[Category]int{}
	of := map[timeline.AllocationID]line{}
	for _, id := range ids {
		at := lines(a.t.Stack(id))
		if at == (line{}) {
			continue
		}
		of[id] = at
		if votes[at] == nil {
			votes[at] = map[Category]int{}
		}
		if c, ok := a.replaced.get(id); ok {
			votes[at][c.category]++
		}
	}
	for id, at := range of {
		all, most := 0, a.replaced.of[id].category
		for c, n := range votes[at] {
			if all += n; n > votes[at][most] {
				most = c
			}
		}
		if n := votes[at][most]; n > 0 && 4*n >= 3*all {
			a.replaced.put(id, as(most, plausible))
		}
	}
}

// early tells whether an allocation was there before the first step. Weights that
// the first step drops look like its batch where no stacks tell.
func early(a *analysis, id timeline.AllocationID) bool {
	return a.born(id) < 0 || a.Phase[id] == Setup || a.Phase[id] == Data && a.Step[id] < 0
}

// addedTo counts, by size, the gradients that a backward pass adds to those that are
// older than the trace: it makes as many as there are weights and drops them. They
// show in how often nearly all sizes recur among what is older: twice without an
// optimizer's state, up to four times with it. It is nil where they don't.
func addedTo(a *analysis) map[int64]int {
	var pass *run // the one that makes the most
	for i := range a.runs {
		if r := &a.runs[i]; r.phase == Backward && (pass == nil || r.end-r.first > pass.end-pass.first) {
			pass = r
		}
	}
	if pass == nil || a.t.Older() == 0 {
		return nil
	}
	made, old := map[int64]int{}, map[int64]int{}
	for i := pass.first; i < pass.end; i++ {
		if id := a.t.Of[i]; id != timeline.NoAllocation && a.born(id) == i && a.freed(id) < pass.end {
			made[a.t.Requested(id)]++
		}
	}
	var all int64
	for i := range a.t.Older() {
		id := timeline.AllocationID(i)
		if n := a.t.Requested(id); n > scalar && a.t.Stack(id) == 0 && !cublasSize(n) &&
			(lasts(a, id) || a.phaseAt(a.freed(id)) == Optimizer) {
			old[n]++
			all += n
		}
	}
	for times := 4; times >= 2; times-- {
		var bytes int64
		sizes := 0
		for n, count := range old {
			if made[n] > 0 && count == times*made[n] && a.gradientSize[n] == 0 {
				bytes += n * int64(count)
				sizes++
			}
		}
		const several, nearly = 3, 0.9
		if sizes >= several && float64(bytes) >= nearly*float64(all) {
			for n := range made {
				if old[n] != times*made[n] {
					delete(made, n)
				}
			}
			return made
		}
	}
	return nil
}

// judgeReplaced judges what was there of one size before the first recorded step,
// the earliest first: as many weights as a step makes gradients, or as gradients
// that are added to, then these, then state. What nothing takes the place of is
// left to others where no gradients show it.
func judgeReplaced(a *analysis, ids []timeline.AllocationID, taken map[timeline.AllocationID]bool, gradients, added int) {
	var stay, gone []timeline.AllocationID
	for _, id := range ids {
		if taken[id] {
			gone = append(gone, id)
		} else {
			stay = append(stay, id)
		}
	}
	put := func(ids []timeline.AllocationID, from, to int, category Category) {
		for k := from; k < min(to, len(ids)); k++ {
			a.replaced.put(ids[k], as(category, plausible))
		}
	}
	switch {
	case added > 0 && len(stay) == added && len(gone) > 0: // only gradients stay
		put(stay, 0, added, Gradients)
		put(gone, 0, added, Weights)
		put(gone, added, math.MaxInt, OptimizerState)
	case added > 0:
		put(stay, 0, added, Weights)
		put(stay, added, 2*added, Gradients)
		put(stay, 2*added, math.MaxInt, OptimizerState)
		put(gone, 0, math.MaxInt, OptimizerState)
	case gradients > 0 && len(gone) > 0:
		for k, id := range ids {
			switch {
			case k < gradients:
				a.replaced.put(id, as(Weights, plausible))
			case taken[id]:
				a.replaced.put(id, as(OptimizerState, plausible))
			}
		}
	}
}

var replacedByStep = &Rule{
	ID: "replaced-by-each-step",
	Doc: `Weights and state that every step of an optimizer makes anew and puts in the place of those before
(p.data = p.data - lr * p.grad), and what such an optimizer began with.`,
	Signal: ByLife,
	Born:   anyTime,
	Needs:  []Need{Training, Lives, Sizes, Runs},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		if len(a.replaced.of) == 0 {
			return nil
		}
		return func(id timeline.AllocationID) claim {
			c, _ := a.replaced.get(id)
			return c
		}
	},
}
