package logits

import (
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// markFailedCopy marks the logits of a pass that ended in a failed request for a copy of them in fp32, as a loss wants it: the
// last product of the pass, at least twice as large as all else that the pass made. A first layer may look so, too, and has
// fewer products before it.
func markFailedCopy(a *look, p rules.Pass) {
	if !a.Recorded.Allocs || p.Backward != nil || len(a.OOMs) == 0 {
		return
	}
	failed := a.OOMs[len(a.OOMs)-1]
	id := a.lastProduct(p.First, failed)
	if id == timeline.NoAllocation || failed > p.End || !family(2*a.Timeline.Requested(id), a.Events.Size[failed]) {
		return
	}
	const layer = 8 // products
	products := 0
	for i := p.First; i < failed; i++ {
		if a.Events.Action[i] != snapshot.Alloc || a.Timeline.Of[i] == id {
			continue
		}
		if 2*a.Events.Size[i] > a.Timeline.Requested(id) {
			return
		}
		if a.Birth(a.Timeline.Of[i]).Marks&(frames.MatMul|frames.Workspace) == frames.MatMul {
			products++
		}
	}
	if products >= layer {
		a.Logits[id] = plain
	}
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
