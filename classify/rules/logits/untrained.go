package logits

import (
	"sort"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// markAsTrained marks the logits of a pass that came to no loss: of the words of
// those that were trained on, before.
func markAsTrained(a *rules.Facts, p rules.Pass, trained int64) {
	const large = 1 << 20
	if top := product(a, p); top != timeline.NoAllocation {
		if n := a.Timeline.Requested(top); min(n, trained) >= large && rules.Row(n, trained) >= 2*fewWords {
			markProduct(a, p, top)
		}
	}
}

// markAtFailure marks the logits of a pass that failed in the loss, or where
// something as large was to be made of what may be logits, or in making them: for
// every word of what looks like a vocabulary. It is false where it found none.
func markAtFailure(a *rules.Facts, p rules.Pass) bool {
	i := sort.SearchInts(a.OOMs, p.First)
	if i == len(a.OOMs) || a.OOMs[i] > p.End {
		return false
	}
	at := a.OOMs[i]
	e, asked := a.Stacks[a.Events.StackOf(at)], a.Events.Size[at]
	if e.Marks&(frames.Loss|frames.LossGrad) == frames.Loss && asked > 64 {
		markForward(a, p, asked)
		return true
	}
	top := product(a, p)
	if top == timeline.NoAllocation || !forEachWord(a, a.Timeline.Requested(top)) {
		return false
	}
	copied := e.Depth <= 1 && family(asked, a.Timeline.Requested(top))
	making := e.Marks&frames.MatMul != 0 && at-a.Born(top) <= 2
	if copied || making {
		markProduct(a, p, top)
	}
	return copied || making
}

// product is the largest result of a linear map that the model itself calls, if
// nothing in the pass is larger but a copy of it.
func product(a *rules.Facts, p rules.Pass) timeline.AllocationID {
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
func markProduct(a *rules.Facts, p rules.Pass, top timeline.AllocationID) {
	a.Logits[top] = plain
	for i := a.Born(top) + 1; i < p.End; i++ {
		if id := a.Timeline.Of[i]; a.Events.Action[i] == snapshot.Alloc && family(a.Events.Size[i], a.Timeline.Requested(top)) &&
			a.Birth(id).Depth <= 1 && a.Birth(id).Marks&frames.Workspace == 0 {
			a.Logits[id] = meaning.LogitsCopy
		}
	}
}

// forEachWord reports whether so many bytes are numbers for each word of the largest
// weight, of which the small weights of the layers are a row.
func forEachWord(a *rules.Facts, n int64) bool {
	const small, often = 1 << 16, 4
	var words int64
	for size := range a.WeightSize {
		words = max(words, size)
	}
	for size, count := range a.WeightSize {
		if size > phases.Scalar && size <= small && count >= often && words%size == 0 && words/size >= fewWords &&
			n%(words/size) == 0 {
			return true
		}
	}
	return false
}

// MarkJoined marks what joins the logits of several passes that aren't trained
// on, as evaluations do: as large as those of two or more.
func MarkJoined(a *rules.Facts, steps []meaning.Step) {
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
