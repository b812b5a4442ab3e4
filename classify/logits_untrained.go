package classify

import (
	"sort"

	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// markAsTrained marks the scores of a pass that came to no loss: of the words of
// those that were trained on, before.
func markAsTrained(a *analysis, p pass, trained int64) {
	const large = 1 << 20
	if top := product(a, p); top != timeline.NoAllocation {
		if n := a.t.Requested(top); min(n, trained) >= large && row(n, trained) >= 2*fewWords {
			markProduct(a, p, top)
		}
	}
}

// markAtFailure marks the scores of a pass that failed in the loss, or where
// something as large was to be made of what may be scores, or in making them: for
// every word of what looks like a vocabulary. It is false where it found none.
func markAtFailure(a *analysis, p pass) bool {
	i := sort.SearchInts(a.ooms, p.first)
	if i == len(a.ooms) || a.ooms[i] > p.end {
		return false
	}
	at := a.ooms[i]
	e, asked := a.stacks[a.events.StackOf(at)], a.events.Size[at]
	if e.Marks&(frames.Loss|frames.LossGrad) == frames.Loss && asked > 64 {
		markForward(a, p, asked)
		return true
	}
	top := product(a, p)
	if top == timeline.NoAllocation || !forEachWord(a, a.t.Requested(top)) {
		return false
	}
	copied := e.depth <= 1 && family(asked, a.t.Requested(top))
	making := e.Marks&frames.MatMul != 0 && at-a.born(top) <= 2
	if copied || making {
		markProduct(a, p, top)
	}
	return copied || making
}

// product is the largest result of a linear map that the model itself calls, if
// nothing in the pass is larger but a copy of it.
func product(a *analysis, p pass) timeline.AllocationID {
	var largest int64
	top := timeline.NoAllocation
	for i := p.first; i < p.end; i++ {
		if a.events.Action[i] != snapshot.Alloc {
			continue
		}
		n := a.events.Size[i]
		largest = max(largest, n)
		e := a.stacks[a.events.StackOf(i)]
		if e.Marks&frames.MatMul != 0 && e.Marks&(frames.Copying|frames.Workspace) == 0 && e.depth > 0 && e.depth <= 2 &&
			(top == timeline.NoAllocation || n > a.t.Requested(top)) {
			top = a.t.Of[i]
		}
	}
	if top == timeline.NoAllocation || !family(largest, a.t.Requested(top)) {
		return timeline.NoAllocation
	}
	return top
}

// markProduct marks scores, and what the program makes of them.
func markProduct(a *analysis, p pass, top timeline.AllocationID) {
	a.logits[top] = scores
	for i := a.born(top) + 1; i < p.end; i++ {
		if id := a.t.Of[i]; a.events.Action[i] == snapshot.Alloc && family(a.events.Size[i], a.t.Requested(top)) &&
			a.birth(id).depth <= 1 && a.birth(id).Marks&frames.Workspace == 0 {
			a.logits[id] = LogitsCopy
		}
	}
}

// forEachWord tells whether so many bytes are numbers for each word of the largest
// weight, of which the small weights of the layers are a row.
func forEachWord(a *analysis, n int64) bool {
	const small, often = 1 << 16, 4
	var words int64
	for size := range a.weightSize {
		words = max(words, size)
	}
	for size, count := range a.weightSize {
		if size > scalar && size <= small && count >= often && words%size == 0 && words/size >= fewWords && n%(words/size) == 0 {
			return true
		}
	}
	return false
}

// markJoined marks what joins the scores of several passes that aren't trained
// on, as evaluations do: as large as those of two or more.
func markJoined(a *analysis, steps []Step) {
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
		case a.logits[id] == NoDetail && a.stacks[a.t.Stack(id)].Marks&(frames.Workspace|frames.InModule) == 0:
			for size := range sizes {
				if n > size && n%size == 0 && n/size <= 2*int64(len(steps)) {
					a.logits[id] = LogitsCopy
				}
			}
		}
	}
}
