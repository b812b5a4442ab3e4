package classify

import (
	"slices"

	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// findHeads finds what makes the scores: the last linear map of a pass, when the
// model itself calls it and the other maps lie in modules below.
func (a *analysis) findHeads() {
	a.heads = make([]bool, len(a.stacks))
	deeper := 0 // maps below the model since the last candidate
	candidate := timeline.NoAllocation
	for i := a.loop; i < a.last && a.all&matmul != 0; i++ {
		if a.events.Action[i] != snapshot.Alloc {
			continue
		}
		id := a.t.Of[i]
		e := a.birth(id)
		if e.marks&(workspace|cast|engine) != 0 || !a.recorded.native && cublasSize(a.events.Size[i]) {
			continue
		}
		isMap := e.marks&matmul != 0
		switch {
		case isMap && e.depth == 2:
			if deeper >= 3 {
				candidate = id
			}
			deeper = 0
		case isMap && e.depth > 2:
			deeper++
			candidate = timeline.NoAllocation
		case e.depth <= 1 && candidate != timeline.NoAllocation:
			a.heads[a.t.Stack(candidate)] = true
			candidate = timeline.NoAllocation
		}
	}
}

// markScores marks the scores of passes without a loss, and the copies that the
// program makes of them.
func (a *analysis) markScores() {
	if a.trains || !slices.Contains(a.heads, true) {
		return
	}
	var size int64
	for i := a.loop; i < a.last; i++ {
		if a.events.Action[i] != snapshot.Alloc {
			continue
		}
		id, n := a.t.Of[i], a.events.Size[i]
		e := a.birth(id)
		switch {
		case e.marks&workspace != 0 || !a.recorded.native && cublasSize(n):
		case a.heads[a.t.Stack(id)]:
			if a.logits[id] == NoDetail {
				a.logits[id] = scores
			}
			size = n
		case e.depth > 1:
			size = 0
		case size > 0 && e.marks&matmul == 0 && family(n, size):
			a.logits[id] = LogitsCopy
		}
	}
}
