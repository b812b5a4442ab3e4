package optimizer

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

// FindResumed finds the state that an optimizer has from a checkpoint, before its
// first step: two moments of each weight's size, one right behind the other, after
// the weights themselves. No model has its own weights like that. Where no step is
// seen, a file must have brought them.
func FindResumed(a *rules.Facts) {
	a.Resumed = map[timeline.AllocationID]meaning.Detail{}
	if !a.Trains && !a.Updates && a.All&frames.Stored == 0 {
		return
	}
	var ids []timeline.AllocationID // what setup leaves
	for id := timeline.AllocationID(a.Timeline.Older()); int(id) < a.Timeline.Len(); id++ {
		if a.Phase[id] == meaning.Setup && a.Timeline.Requested(id) > phases.Scalar &&
			(a.Outlives(id) || a.PhaseAt(a.Freed(id)) != meaning.Setup) {
			ids = append(ids, id)
		}
	}
	for odd := range 2 {
		of, counted := map[int64]int{}, 0 // by size, of the first ones
		for from := odd; from+1 < len(ids); from += 2 {
			end := from
			for end+1 < len(ids) && a.Timeline.Requested(ids[end]) == a.Timeline.Requested(ids[end+1]) {
				end += 2
			}
			if end > from {
				for ; counted < end; counted++ {
					of[a.Timeline.Requested(ids[counted])]++
				}
				markMoments(a, ids[:end], from, of)
				from = end
			}
		}
	}
}

// markMoments marks the moments among allocations that come two by two from one on,
// where that many weights come before them and an optimizer doesn't make them itself.
// of counts them by size.
func markMoments(a *rules.Facts, ids []timeline.AllocationID, from int, of map[int64]int) {
	const few = 8 // pairs
	pairs := map[int64]int{}
	first := len(ids)
	for first-2 >= from {
		n := a.Timeline.Requested(ids[first-1])
		brought := a.Birth(ids[first-1]).Marks&frames.Stored != 0
		if a.StateSize[n] || !a.Trains && !a.Updates && !brought || of[n]-2*(pairs[n]+1) <= pairs[n] {
			break
		}
		pairs[n]++
		first -= 2
	}
	if len(ids)-first < 2*few || len(pairs) < 2 {
		return
	}
	for i := first; i < len(ids); i += 2 {
		a.Resumed[ids[i]], a.Resumed[ids[i+1]] = meaning.Moment1, meaning.Moment2
	}
	for id := max(ids[first]-1, 0); id < ids[len(ids)-1]; id++ { // counters come before or between them
		if a.Timeline.Requested(id) <= phases.Scalar && a.Phase[id] == meaning.Setup && a.Outlives(id) {
			a.Resumed[id] = meaning.StepCounter
		}
	}
}
