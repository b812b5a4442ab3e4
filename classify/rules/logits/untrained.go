package logits

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// markAsTrained marks the logits of a pass that came to no loss: of the words of
// those that were trained on, before.
//
//worth:off
func markAsTrained(a *look, p rules.Pass, trained int64) {
	const large = 1 << 20
	if top := product(a, p); top != timeline.NoAllocation {
		if n := a.Timeline.Requested(top); min(n, trained) >= large && rules.Row(n, trained) >= 2*fewWords {
			markProduct(a, p, top)
		}
	}
}

// product is the largest result of a linear map that the model itself calls, if
// nothing in the pass is larger but a copy of it.
func product(a *look, p rules.Pass) timeline.AllocationID {
	var largest int64
	top := timeline.NoAllocation
	for i := p.First; i < p.End; i++ {
		if a.Events.Action[i] != snapshot.Alloc {
			continue
		}
		n := a.Events.Size[i]
		largest = max(largest, n)
		e := a.Stacks[a.Events.StackOf(i)]
		if e.Marks&frames.MatMul != 0 && e.Marks&(frames.Copying|frames.Workspace) == 0 && e.Depth > 0 && e.Depth <= 2 &&
			(top == timeline.NoAllocation || n > a.Timeline.Requested(top)) {
			top = a.Timeline.Of[i]
		}
	}
	if top == timeline.NoAllocation || !family(largest, a.Timeline.Requested(top)) {
		return timeline.NoAllocation
	}
	return top
}

// markProduct marks logits, and what the program makes of them.
func markProduct(a *look, p rules.Pass, top timeline.AllocationID) {
	a.Logits[top] = plain
	for i := a.Born(top) + 1; i < p.End; i++ {
		if id := a.Timeline.Of[i]; a.Events.Action[i] == snapshot.Alloc && family(a.Events.Size[i], a.Timeline.Requested(top)) &&
			a.Birth(id).Depth <= 1 && a.Birth(id).Marks&frames.Workspace == 0 {
			a.Logits[id] = meaning.LogitsCopy
		}
	}
}

// MarkJoined marks what joins the logits of several passes that aren't trained
// on, as evaluations do: as large as those of two or more.
//
//worth:off
func MarkJoined(a *look, steps []meaning.Step) {
	const large = 1 << 20
	sizes := map[int64]bool{}
	for i := steps[0].FirstEvent; i <= steps[len(steps)-1].LastEvent; i++ {
		n := a.Events.Size[i]
		if a.Events.Action[i] != snapshot.Alloc || n < large {
			continue
		}
		id := a.Timeline.Of[i]
		switch {
		case a.Logits[id] == plain && len(sizes) < 4:
			sizes[n] = true
		case a.Logits[id] == meaning.NoDetail && a.Stacks[a.Timeline.Stack(id)].Marks&(frames.Workspace|frames.InModule) == 0:
			for size := range sizes {
				if n > size && n%size == 0 && n/size <= 2*int64(len(steps)) {
					a.Logits[id] = meaning.LogitsCopy
				}
			}
		}
	}
}
