package classify

import (
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// markAsTrained marks the scores of a pass that came to no loss: made by a linear map
// that the model itself calls, for the words of those that were trained on; and
// what the program makes of them. Nothing there is larger but a copy of them.
func (a *analysis) markAsTrained(p pass, trained int64) {
	const large = 1 << 20
	var largest int64
	top := timeline.NoAllocation
	for i := p.first; i < p.end; i++ {
		if a.events.Action[i] != snapshot.Alloc {
			continue
		}
		n := a.events.Size[i]
		largest = max(largest, n)
		e := a.stacks[a.events.StackOf(i)]
		if e.marks&matmul != 0 && e.marks&(copying|workspace) == 0 && e.depth > 0 && e.depth <= 2 && (top == timeline.NoAllocation || n > a.t.Requested(top)) {
			top = a.t.Of[i]
		}
	}
	if top == timeline.NoAllocation {
		return
	}
	if n := a.t.Requested(top); min(n, trained) >= large && family(largest, n) && row(n, trained) >= 2*fewWords {
		a.logits[top] = scores
		for i := a.born(top) + 1; i < p.end; i++ {
			if id := a.t.Of[i]; a.events.Action[i] == snapshot.Alloc && family(a.events.Size[i], n) && a.birth(id).depth <= 1 && a.birth(id).marks&workspace == 0 {
				a.logits[id] = LogitsCopy
			}
		}
	}
}

// markJoined marks what joins the scores of several passes that aren't trained
// on, as evaluations do: as large as those of two or more.
func (a *analysis) markJoined(steps []Step) {
	const large = 1 << 20
	sizes := map[int64]bool{}
	for i := steps[0].FirstEvent; i <= steps[len(steps)-1].LastEvent; i++ {
		n := a.events.Size[i]
		if a.events.Action[i] != snapshot.Alloc || n < large {
			continue
		}
		id := a.t.Of[i]
		switch {
		case a.logits[id] == scores && len(sizes) < 4:
			sizes[n] = true
		case a.logits[id] == NoDetail && a.stacks[a.t.Stack(id)].marks&(workspace|inModule) == 0:
			for size := range sizes {
				if n > size && n%size == 0 && n/size <= 2*int64(len(steps)) {
					a.logits[id] = LogitsCopy
				}
			}
		}
	}
}
