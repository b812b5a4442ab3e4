package logits

import (
	"maps"
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

// Heads mark, by their stacks, what makes logits: the last linear map of the model.
var Heads = rules.Named("what makes logits", FindHeads)

// FindHeads finds what makes the logits: the last linear map of a pass, when the
// model itself calls it and the other maps lie in modules below.
func FindHeads(a *rules.Facts) []bool {
	heads := make([]bool, len(a.Stacks))
	deeper := 0 // maps below the model since the last candidate
	candidate := timeline.NoAllocation
	if a.All&frames.MatMul == 0 {
		return heads
	}
	for i, id := range a.Allocs(a.Loop, a.Last) {
		e := a.Birth(id)
		if e.Marks&(frames.Workspace|frames.Cast|frames.Engine) != 0 || phases.CublasSize(a.Events.Size[i]) &&
			(!a.Recorded.Native || a.Freed(id)-i <= 2) {
			continue
		}
		isMap := e.Marks&frames.MatMul != 0
		switch {
		case isMap && e.Depth == 2:
			if deeper >= 3 {
				candidate = id
			}
			deeper = 0
		case isMap && e.Depth > 2:
			deeper++
			candidate = timeline.NoAllocation
		case e.Depth <= 1 && candidate != timeline.NoAllocation:
			heads[a.Timeline.Stack(candidate)] = true
			candidate = timeline.NoAllocation
		}
	}
	return heads
}

// markUntrained marks the logits of passes without a loss, and the copies that the
// program makes of them.
func markUntrained(a *look) {
	if !slices.Contains(a.Heads, true) {
		return
	}
	if !a.Trains {
		markLogitsIn(a, a.Loop, a.Last)
	}
	for _, steps := range a.Untrained {
		markLogitsIn(a, steps[0].FirstEvent, steps[len(steps)-1].LastEvent+1)
		markJoined(a, steps)
	}
}

// markJoined marks what joins the logits of several passes that aren't trained
// on, as evaluations do: as large as those of two or more.
func markJoined(a *look, steps []meaning.Step) {
	const large = 1 << 20
	sizes := map[int64]bool{}
	for i, id := range a.Allocs(steps[0].FirstEvent, steps[len(steps)-1].LastEvent+1) {
		n := a.Events.Size[i]
		switch {
		case n < large:
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

func markLogitsIn(a *look, from, to int) {
	var size int64
	for i, id := range a.Allocs(from, to) {
		n, e := a.Events.Size[i], a.Birth(id)
		switch {
		case e.Marks&frames.Workspace != 0 || !a.Recorded.Native && phases.CublasSize(n):
		case a.Heads[a.Timeline.Stack(id)]:
			if a.Logits[id] == meaning.NoDetail {
				a.Logits[id] = plain
			}
			size = n
		case e.Depth > 1:
			size = 0
		case size > 0 && e.Marks&frames.MatMul == 0 && family(n, size):
			a.Logits[id] = meaning.LogitsCopy
		}
	}
}

// markAsTrained marks the logits of a pass that came to no loss: of the words of
// those that were trained on, before.
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
	for i, id := range a.Allocs(p.First, p.End) {
		n, e := a.Events.Size[i], a.Birth(id)
		largest = max(largest, n)
		if e.Marks&frames.MatMul != 0 && e.Marks&(frames.Copying|frames.Workspace) == 0 && e.Depth > 0 && e.Depth <= 2 &&
			(top == timeline.NoAllocation || n > a.Timeline.Requested(top)) {
			top = id
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
	for i, id := range a.Allocs(a.Born(top)+1, p.End) {
		e := a.Birth(id)
		if family(a.Events.Size[i], a.Timeline.Requested(top)) && e.Depth <= 1 && e.Marks&frames.Workspace == 0 {
			a.Logits[id] = meaning.LogitsCopy
		}
	}
}

// markWidest marks what may be logits though no loss shows, as where a program
// computes with each token's own or with a part of them at a time: requests of a pass,
// however many of a few sizes, that are far larger than all others.
func markWidest(a *look, p rules.Pass) {
	const few, far, part = 16, 3, 5 // sizes; times as large; one in so many requests: layers are more
	var all []timeline.AllocationID
	of := map[int64]int{}
	for i, id := range a.Allocs(p.First, p.End) {
		n := a.Events.Size[i]
		if n >= 1<<16 && a.Logits[id] == meaning.NoDetail && !a.IsWorkspaceBySize(id) {
			all, of[n] = append(all, id), of[n]+1
		}
	}
	sizes := slices.Sorted(maps.Keys(of))
	slices.Reverse(sizes)
	wide := 0
	for k := range min(few, len(sizes)-1) {
		if wide += of[sizes[k]]; wide*part > len(all) {
			return
		}
		if sizes[k] < far*sizes[k+1] {
			continue
		}
		for _, id := range all {
			if a.Timeline.Requested(id) >= sizes[k] {
				a.Widest[id] = true
			}
		}
		return
	}
}
