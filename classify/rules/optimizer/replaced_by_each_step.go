package optimizer

import (
	"math"
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/classify/rules/older"
	"github.com/vramscope/vramscope/timeline"
)

var ReplacedByStep = &rules.Rule{
	ID: "replaced-by-each-step",
	Doc: `Weights and state that every step of an optimizer makes anew and puts in the place of those before
(p.data = p.data - lr * p.grad), and what such an optimizer began with.`,
	Signal: meaning.ByLife,
	Born:   rules.AnyTime,
	Needs:  []rules.Need{rules.Training, rules.Lives, rules.Sizes, rules.Runs},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		replaced := findReplaced(a)
		if len(replaced.Of) == 0 {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			c, _ := replaced.Get(id)
			return c
		}
	},
}

// findReplaced judges weights and state that every step of an optimizer makes anew
// and puts in the place of those before (p.data = p.data - …), and what such an
// optimizer began with.
//
// complexity: conditions on what was there before the first step.
func findReplaced(a *rules.Facts) (replaced rules.Sparse[rules.Claim]) {
	before := successions(a)
	added := addedTo(a)
	if len(before) == 0 && added == nil {
		return replaced
	}
	taken := map[timeline.AllocationID]bool{}
	for _, old := range before {
		taken[old] = true
	}
	bySize := map[int64][]timeline.AllocationID{} // what was there before the first step, the earliest first
	for i := range a.Category {
		id := timeline.AllocationID(i)
		n := a.Timeline.Requested(id)
		if n <= phases.Scalar || !early(a, id) || a.Born(id) < 0 && a.Timeline.Stack(id) != 0 {
			continue
		}
		if taken[id] || a.Outlives(id) || a.Born(id) < 0 && older.Lasts(a, id) {
			bySize[n] = append(bySize[n], id)
		}
	}
	for n, ids := range bySize {
		judgeReplaced(&replaced, ids, taken, a.GradientSize[n], added[n])
	}
	var ids []timeline.AllocationID
	for id := range before {
		ids = append(ids, id)
	}
	slices.Sort(ids) // what takes a place is younger than what was there
	for _, id := range ids {
		if c, ok := replaced.Get(before[id]); ok {
			replaced.Put(id, c)
		}
	}
	agree(a, &replaced, ids)
	return replaced
}

// agree has what one line makes be what most of it is: the last parameter's
// forerunners go somewhere else than all others'.
func agree(a *rules.Facts, replaced *rules.Sparse[rules.Claim], ids []timeline.AllocationID) {
	lines := innermost(a)
	votes := map[line]map[meaning.Category]int{}
	of := map[timeline.AllocationID]line{}
	for _, id := range ids {
		at := lines(a.Timeline.Stack(id))
		if at == (line{}) {
			continue
		}
		of[id] = at
		if votes[at] == nil {
			votes[at] = map[meaning.Category]int{}
		}
		if c, ok := replaced.Get(id); ok {
			votes[at][c.Category]++
		}
	}
	for id, at := range of {
		all, most := 0, replaced.Of[id].Category
		for c, n := range votes[at] {
			if all += n; n > votes[at][most] {
				most = c
			}
		}
		if n := votes[at][most]; n > 0 && 4*n >= 3*all {
			replaced.Put(id, rules.As(most, rules.Plausible))
		}
	}
}

// early reports whether an allocation was there before the first step. Weights that
// the first step drops look like its batch where no stacks tell.
func early(a *rules.Facts, id timeline.AllocationID) bool {
	return a.Born(id) < 0 || a.Phase[id] == meaning.Setup || a.Phase[id] == meaning.Data && a.Step[id] < 0
}

// addedTo counts, by size, the gradients that a backward pass adds to those that are
// older than the trace: it makes as many as there are weights and drops them. They
// show in how often nearly all sizes recur among what is older: twice without an
// optimizer's state, up to four times with it. It is nil where they don't.
//
// complexity: a pass, what was made in it and what is older are counted one after the other.
func addedTo(a *rules.Facts) map[int64]int {
	var pass *phases.Run // the one that makes the most
	for i := range a.Runs {
		if r := &a.Runs[i]; r.Phase == meaning.Backward && (pass == nil || r.End-r.First > pass.End-pass.First) {
			pass = r
		}
	}
	if pass == nil || a.Timeline.Older() == 0 {
		return nil
	}
	made, old := map[int64]int{}, map[int64]int{}
	for i := pass.First; i < pass.End; i++ {
		if id := a.Timeline.Of[i]; id != timeline.NoAllocation && a.Born(id) == i && a.Freed(id) < pass.End {
			made[a.Timeline.Requested(id)]++
		}
	}
	var all int64
	for i := range a.Timeline.Older() {
		id := timeline.AllocationID(i)
		if n := a.Timeline.Requested(id); n > phases.Scalar && a.Timeline.Stack(id) == 0 && !phases.CublasSize(n) &&
			(older.Lasts(a, id) || a.PhaseAt(a.Freed(id)) == meaning.Optimizer) {
			old[n]++
			all += n
		}
	}
	for times := 4; times >= 2; times-- {
		var bytes int64
		sizes := 0
		for n, count := range old {
			if made[n] > 0 && count == times*made[n] && a.GradientSize[n] == 0 {
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
func judgeReplaced(replaced *rules.Sparse[rules.Claim], ids []timeline.AllocationID, taken map[timeline.AllocationID]bool,
	gradients, added int) {
	var stay, gone []timeline.AllocationID
	for _, id := range ids {
		if taken[id] {
			gone = append(gone, id)
		} else {
			stay = append(stay, id)
		}
	}
	put := func(ids []timeline.AllocationID, from, to int, category meaning.Category) {
		for k := from; k < min(to, len(ids)); k++ {
			replaced.Put(ids[k], rules.As(category, rules.Plausible))
		}
	}
	switch {
	case added > 0 && len(stay) == added && len(gone) > 0: // only gradients stay
		put(stay, 0, added, meaning.Gradients)
		put(gone, 0, added, meaning.Weights)
		put(gone, added, math.MaxInt, meaning.OptimizerState)
	case added > 0:
		put(stay, 0, added, meaning.Weights)
		put(stay, added, 2*added, meaning.Gradients)
		put(stay, 2*added, math.MaxInt, meaning.OptimizerState)
		put(gone, 0, math.MaxInt, meaning.OptimizerState)
	case gradients > 0 && len(gone) > 0:
		for k, id := range ids {
			switch {
			case k < gradients:
				replaced.Put(id, rules.As(meaning.Weights, rules.Plausible))
			case taken[id]:
				replaced.Put(id, rules.As(meaning.OptimizerState, rules.Plausible))
			}
		}
	}
}
