package optimizer

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

// Beside is what setup leaves beside weights: moments from a checkpoint.
var Beside = rules.Named("what setup leaves beside weights", findResumed)

// setupLook is a look at what setup leaves, and what was found.
type setupLook struct {
	*rules.Facts
	*rules.SizeIndex
	Beside map[timeline.AllocationID]rules.Claim
}

// findResumed finds the state that an optimizer has from a checkpoint, before its
// first step: two moments of each weight's size, one right behind the other, after
// the weights themselves. No model has its own weights like that.
func findResumed(f *rules.Facts) map[timeline.AllocationID]rules.Claim {
	a := &setupLook{f, rules.Sizes.Of(f), map[timeline.AllocationID]rules.Claim{}}
	var ids []timeline.AllocationID // what setup leaves
	for id := timeline.AllocationID(a.Timeline.Older()); int(id) < a.Timeline.Len(); id++ {
		if a.Phase[id] == meaning.Setup && a.Timeline.Requested(id) > phases.Scalar &&
			(a.Outlives(id) || a.PhaseAt(a.Freed(id)) != meaning.Setup) {
			ids = append(ids, id)
		}
	}
	markPairs(a, ids)
	return a.Beside
}

// markPairs marks moments that come two by two, after as many weights of their sizes.
func markPairs(a *setupLook, ids []timeline.AllocationID) {
	const few = 8         // pairs
	of := map[int64]int{} // by size
	for _, id := range ids {
		of[a.Timeline.Requested(id)]++
	}
	pairs := map[int64]int{}
	for end := len(ids); end > 0; {
		clear(pairs)
		first := end
		for first > 1 && isPair(a, ids[first-2:first]) {
			n := a.Timeline.Requested(ids[first-1])
			if of[n]-2*(pairs[n]+1) <= pairs[n] { // no more weights than these come before them
				break
			}
			pairs[n]++
			first -= 2
		}
		next := end - 1
		if end-first >= 2*few {
			next = first
			if len(pairs) > 1 {
				markMoments(a, ids[first:end])
			}
		}
		for ; end > next; end-- {
			of[a.Timeline.Requested(ids[end-1])]--
		}
	}
}

// isPair reports whether two allocations may be moments that no step makes: of one size.
func isPair(a *setupLook, ids []timeline.AllocationID) bool {
	n := a.Timeline.Requested(ids[0])
	return n == a.Timeline.Requested(ids[1]) && !a.StateSize[n]
}

// markMoments marks moments, and the counters that come before or between them.
func markMoments(a *setupLook, ids []timeline.AllocationID) {
	for i, id := range ids {
		markState(a, id, [...]meaning.Detail{meaning.Moment1, meaning.Moment2}[i%2])
	}
	for id := max(ids[0]-1, 0); id < ids[len(ids)-1]; id++ {
		if a.Timeline.Requested(id) <= phases.Scalar && a.Phase[id] == meaning.Setup && a.Outlives(id) {
			markState(a, id, meaning.StepCounter)
		}
	}
}

// markState marks an optimizer's state, for which only sizes speak where there are no stacks.
func markState(a *setupLook, id timeline.AllocationID, d meaning.Detail) {
	sure := uint8(rules.Plausible)
	if a.Recorded.Allocs {
		sure = rules.Likely
	}
	a.Beside[id] = rules.KindOf(meaning.OptimizerState, d, sure)
}
