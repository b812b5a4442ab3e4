package optimizer

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/classify/rules/older"
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
	if markPairs(a, ids); len(a.Beside) == 0 {
		return findWholeSets(f)
	}
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
	a.Beside[id] = rules.KindOf(meaning.OptimizerState, d, sureOf(a.Facts))
}

func sureOf(a *rules.Facts) uint8 {
	if a.Recorded.Allocs {
		return rules.Likely
	}
	return rules.Plausible
}

// findWholeSets finds the state that a program makes in setup, of an optimizer of its own: as many
// weights of a size as a step leaves gradients, and two moments for each of these, where no step makes any.
func findWholeSets(a *rules.Facts) map[timeline.AllocationID]rules.Claim {
	const large = 1 << 16 // bytes: biases and norms are as large as each other
	if !a.Trains {
		return nil
	}
	left, gradients := map[int64][]timeline.AllocationID{}, older.Gradients.Of(a).GradientSize // by size
	for id := timeline.AllocationID(a.Timeline.Older()); int(id) < a.Timeline.Len(); id++ {
		if n := a.Timeline.Requested(id); a.Phase[id] == meaning.Setup && gradients[n] > 0 && a.Outlives(id) {
			left[n] = append(left[n], id)
		}
	}
	found, fits, all := map[timeline.AllocationID]rules.Claim{}, int64(0), int64(0)
	for n, each := range gradients {
		ids := left[n]
		if all += n * int64(each); len(ids) != 3*each || rules.Sizes.Of(a).StateSize[n] {
			continue
		}
		fits += n * int64(each)
		for k, id := range ids[each:] {
			nth := k / each
			if ids[each]+1 == ids[each+1] { // a weight's own follow each other
				nth = k % 2
			}
			moment := [...]meaning.Detail{meaning.Moment1, meaning.Moment2}[nth]
			found[id] = rules.KindOf(meaning.OptimizerState, moment, sureOf(a))
		}
	}
	if all < large || fits*10 < all*9 {
		return nil
	}
	return found
}
