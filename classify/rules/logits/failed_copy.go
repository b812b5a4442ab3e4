package logits

import (
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// markFailedCopy marks the logits of a pass that ended in a failed request for a copy of them, as the cast to fp32 before a loss
// is: the last product of the pass, the only one of its size and at least twice as large as all else that the pass made.
func markFailedCopy(a *look, p rules.Pass) {
	if !a.Recorded.Allocs || p.Backward != nil || len(a.OOMs) == 0 {
		return
	}
	failed := a.OOMs[len(a.OOMs)-1]
	id := a.lastProduct(p.First, failed)
	if id == timeline.NoAllocation || failed > p.End || !family(a.Timeline.Requested(id), a.Events.Size[failed]) {
		return
	}
	for i := p.First; i < failed; i++ {
		if a.Events.Action[i] == snapshot.Alloc && a.Timeline.Of[i] != id && 2*a.Events.Size[i] > a.Timeline.Requested(id) {
			return
		}
	}
	a.Logits[id] = plain
}

// lastProduct is the matrix product among the last allocations before a failed request that is still there then.
func (a *look) lastProduct(first, failed int) timeline.AllocationID {
	const last = 3
	for i, n := failed-1, 0; i >= first && n < last; i-- {
		if a.Events.Action[i] != snapshot.Alloc {
			continue
		}
		n++
		id := a.Timeline.Of[i]
		if a.Birth(id).Marks&(frames.MatMul|frames.Workspace) == frames.MatMul && a.Freed(id) > failed {
			return id
		}
	}
	return timeline.NoAllocation
}
