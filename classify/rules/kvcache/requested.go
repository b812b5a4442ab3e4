package kvcache

import (
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// findRequested finds the keys and values that a program which only runs forward
// makes room for at the beginning of each request, for all layers at once: a row
// of equal blocks, one or two for each layer, that are there for the passes that
// follow and not small beside what the layers hold, as adapters are.
//
// complexity: each condition excludes something else that comes in rows.
func findRequested(a *rules.Facts) bool {
	const (
		fewest = 8
		large  = 256 << 10 // bytes
		passes = 3
		looks  = 8 // times that an event is looked at, on average
	)
	if a.Saves {
		return false
	}
	type kind struct {
		size  int64
		count int
	}
	known := map[kind]bool{}
	lines := map[snapshot.StackID]int{} // that made some, and how many at once
	budget := looks * (a.Last - a.Loop)
	room := budget // for looking at the sizes of all weights
	found := false
	judge := func(first timeline.AllocationID, count int) {
		if count < fewest || a.Timeline.Requested(first) < large {
			return
		}
		last := first + timeline.AllocationID(count-1)
		gone := a.Last
		for id := first; id <= last; id++ {
			m := a.Birth(id).Marks
			if gone = min(gone, a.Freed(id)); m&(frames.Weight|frames.InModule|frames.Input|frames.Engine) != 0 ||
				a.Recorded.Allocs && m&frames.UserInner == 0 {
				return
			}
		}
		from := a.Born(last) + 1
		if budget -= gone - from; gone <= from || budget < 0 {
			return
		}
		k := kind{a.Timeline.Requested(first), count}
		fits, ok := known[k]
		if !ok {
			if room -= len(a.WeightSize); room < 0 {
				return
			}
			fits = roomForLayers(a, k.count, k.size)
			known[k] = fits
		}
		line := a.Timeline.Stack(first)
		again := line != 0 && lines[line] == count // one whose first pass is its last, or fails
		if !fits || !again && len(a.AnchoredIn(from, gone, &phases.Layers{})) < passes {
			return
		}
		found, lines[line] = true, count
		for id := first; id <= last; id++ {
			a.Kept[id] = true
		}
	}
	first, count := timeline.NoAllocation, 0
	for i := a.Loop; i < a.Last; i++ {
		if a.Events.Action[i] != snapshot.Alloc {
			continue
		}
		id := a.Timeline.Of[i]
		if count > 0 && id == first+timeline.AllocationID(count) && a.Timeline.Requested(id) == a.Timeline.Requested(first) {
			count++
			continue
		}
		judge(first, count)
		first, count = id, 1
	}
	judge(first, count)
	return found
}

// roomForLayers reports whether a number of equal blocks can be the keys and values
// of a model's layers, one or two for each, which are no less than a part of the
// largest weight of one.
func roomForLayers(a *rules.Facts, count int, size int64) bool {
	const part = 16
	if !hasLayers(a, count, size) && (count%2 != 0 || !hasLayers(a, count/2, size)) {
		return false
	}
	for n, often := range a.WeightSize {
		if often*2 >= count && n > size*part {
			return false
		}
	}
	return true
}
