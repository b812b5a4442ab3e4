package logits

import (
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Heads mark, by their stacks, what makes logits: the last linear map of the model.
var Heads = rules.Named("what makes logits", FindHeads)

// FindHeads finds what makes the logits: the last linear map of a pass, when the
// model itself calls it and the other maps lie in modules below.
//
//worth:off { return make([]bool, len(a.Stacks)) }
func FindHeads(a *rules.Facts) []bool {
	heads := make([]bool, len(a.Stacks))
	deeper := 0 // maps below the model since the last candidate
	candidate := timeline.NoAllocation
	for i := a.Loop; i < a.Last && a.All&frames.MatMul != 0; i++ {
		if a.Events.Action[i] != snapshot.Alloc {
			continue
		}
		id := a.Timeline.Of[i]
		e := a.Birth(id)
		if e.Marks&(frames.Workspace|frames.Cast|frames.Engine) != 0 || phases.CublasSize(a.Events.Size[i]) &&
			(!a.Recorded.Native ||
				a.Freed(id)-i <= 2) {
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
	}
}

func markLogitsIn(a *look, from, to int) {
	var size int64
	for i := from; i < to; i++ {
		if a.Events.Action[i] != snapshot.Alloc {
			continue
		}
		id, n := a.Timeline.Of[i], a.Events.Size[i]
		e := a.Birth(id)
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
