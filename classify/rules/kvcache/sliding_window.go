package kvcache

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// slid is what one pass keeps of a cache whose size stays, in the order of birth.
type slid struct {
	ids    []timeline.AllocationID
	before *slid // whose place it took
	passes int   // so far
}

// findWindows finds caches of which every pass puts one of the same size in the place
// of the last, as where keys and values are kept of a window of tokens that slides:
// two blocks for each of four layers or more, which go at once once as many others
// are there, pass after pass.
//
// complexity: a scan with a case for each kind of event, and what ends a run of frees.
func findWindows(a *rules.Facts) (found bool) {
	const (
		pairs, passes = 4, 3
		large         = 1024
	)
	last := map[int64]*slid{} // by size
	window := func(ids []timeline.AllocationID) {
		n := a.Timeline.Requested(ids[0])
		if len(ids) < 2*pairs || len(ids)%2 != 0 || a.WeightSize[n] > 0 || !paired(a, ids) {
			return
		}
		last[n] = windowAfter(a, last[n], slices.Clone(ids))
		for w := last[n]; last[n].passes >= passes && w != nil && !a.Kept[w.ids[0]]; w = w.before {
			found = true
			for _, id := range w.ids {
				a.Kept[id] = true
			}
		}
	}
	var gone []timeline.AllocationID // at once
	flush := func() {
		if len(gone) >= 2*pairs {
			slices.SortFunc(gone, func(x, y timeline.AllocationID) int {
				return cmp.Or(cmp.Compare(a.Timeline.Requested(x), a.Timeline.Requested(y)), cmp.Compare(x, y))
			})
			for from, i := 0, 1; i <= len(gone); i++ {
				if i == len(gone) || a.Timeline.Requested(gone[i]) != a.Timeline.Requested(gone[from]) {
					window(gone[from:i])
					from = i
				}
			}
		}
		gone = gone[:0]
	}
	for i := a.Loop; i < a.Last; i++ {
		id := a.Timeline.Of[i]
		switch action := a.Events.Action[i]; {
		case action == snapshot.Alloc:
			flush()
		case action == snapshot.FreeRequested && id != timeline.NoAllocation && a.Born(id) >= a.Loop &&
			a.Timeline.Requested(id) >= large:
			gone = append(gone, id)
		}
	}
	flush()
	for i := range a.Category { // the recording ends, or a request failed
		id := timeline.AllocationID(i)
		if w := last[a.Timeline.Requested(id)]; w != nil && w.passes >= passes && a.Outlives(id) &&
			a.Born(id) > a.Born(w.ids[len(w.ids)-1]) {
			a.Kept[id] = true
		}
	}
	return found
}

// windowAfter is a window that takes the place of another where all of it was made
// after that and while it was still there.
func windowAfter(a *rules.Facts, w *slid, ids []timeline.AllocationID) *slid {
	if w != nil && len(w.ids) == len(ids) && a.Born(ids[0]) > a.Born(w.ids[len(ids)-1]) &&
		a.Born(ids[len(ids)-1]) < a.Freed(w.ids[0]) {
		return &slid{ids, w, w.passes + 1}
	}
	return &slid{ids: ids, passes: 1}
}
