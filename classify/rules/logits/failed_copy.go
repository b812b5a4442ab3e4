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
	const last = 3 // allocations before the failed request
	if !a.Recorded.Allocs || p.Backward != nil || len(a.OOMs) == 0 {
		return
	}
	failed := a.OOMs[len(a.OOMs)-1]
	logits, before := timeline.NoAllocation, 0
	for i := failed - 1; i >= p.First && before < last && logits == timeline.NoAllocation; i-- {
		if a.Events.Action[i] != snapshot.Alloc {
			continue
		}
		before++
		marks := a.Stacks[a.Events.StackOf(i)].Marks
		if id := a.Timeline.Of[i]; marks&frames.MatMul != 0 && marks&frames.Workspace == 0 && a.Freed(id) > failed &&
			family(a.Events.Size[i], a.Events.Size[failed]) {
			logits = id
		}
	}
	if logits == timeline.NoAllocation || failed > p.End {
		return
	}
	for i := p.First; i < failed; i++ {
		if a.Events.Action[i] == snapshot.Alloc && a.Timeline.Of[i] != logits && 2*a.Events.Size[i] > a.Timeline.Requested(logits) {
			return
		}
	}
	a.Logits[logits] = plain
}
