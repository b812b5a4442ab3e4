package older

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// replacedInStep finds what an optimizer's step frees right after it made its like, which stays: state that each step makes anew.
// Gradients go without one.
//
//worth:off nil
func replacedInStep(a *rules.Facts) map[timeline.AllocationID]bool {
	const near = 64 // events
	replaced, taken := map[timeline.AllocationID]bool{}, map[timeline.AllocationID]bool{}
	for id := range timeline.AllocationID(a.Timeline.Older()) {
		f, n := a.Freed(id), a.Timeline.Requested(id)
		if f < 0 || n <= phases.Scalar || a.PhaseAt(f) != meaning.Optimizer || f >= a.Last {
			continue
		}
		end := a.Runs[a.Run(f)].End
		for i := f - 1; i >= max(0, f-near) && a.Phases[i] == meaning.Optimizer; i-- {
			next := a.Timeline.Of[i]
			if a.Events.Action[i] == snapshot.Alloc && a.Events.Size[i] == n && a.Freed(next) >= end && !taken[next] {
				replaced[id], taken[next] = true, true
				break
			}
		}
	}
	return replaced
}
