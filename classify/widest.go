package classify

import (
	"cmp"
	"maps"
	"slices"

	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// markWidest marks what may be scores though no loss shows, as where a program
// computes with each token's own or with a part of them at a time: a few
// requests of a pass that are far larger than all others.
func (a *analysis) markWidest(p pass) {
	const few, far = 16, 3
	count, all := map[int64]int{}, 0
	each := func(f func(id timeline.AllocationID, n int64)) {
		for i := p.first; i < p.end; i++ {
			n := a.events.Size[i]
			if a.events.Action[i] != snapshot.Alloc || n < 1<<16 {
				continue
			}
			if id := a.t.Of[i]; a.logits[id] == NoDetail && a.workspaceBySize(id).sure == 0 {
				f(id, n)
			}
		}
	}
	each(func(_ timeline.AllocationID, n int64) { count[n]++; all++ })
	sizes := slices.SortedFunc(maps.Keys(count), func(x, y int64) int { return cmp.Compare(y, x) })
	wide := 0 // requests
	for k, n := range sizes {
		if wide += count[n]; wide > few || wide*5 > all {
			return
		}
		if k+1 < len(sizes) && n >= far*sizes[k+1] {
			each(func(id timeline.AllocationID, m int64) {
				if m >= n {
					a.widest[id] = true
				}
			})
			return
		}
	}
}
