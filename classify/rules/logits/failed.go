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

// markFailedCopy marks the logits of a pass that ended in a failed request for a copy of them, as a loss wants it: the last
// product of the pass, at least twice as large as all else that the pass made. A first layer may look so, too, and has fewer
// products before it.
func markFailedCopy(a *look, p rules.Pass) {
	if !a.Recorded.Allocs || p.Backward != nil || len(a.OOMs) == 0 {
		return
	}
	failed := a.OOMs[len(a.OOMs)-1]
	id := a.lastProduct(p.First, failed)
	if id == timeline.NoAllocation || failed > p.End || !family(a.Timeline.Requested(id), a.Events.Size[failed]) {
		return
	}
	const layer = 8 // products
	products := 0
	for i, other := range a.Allocs(p.First, failed) {
		switch {
		case other == id:
		case 2*a.Events.Size[i] > a.Timeline.Requested(id):
			return
		case a.Birth(other).Marks&(frames.MatMul|frames.Workspace) == frames.MatMul:
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

// TellFailedLoss cuts the backward pass off a forward pass where the second request
// of the former failed, without stacks. It is too short to be seen by its rhythm, and
// what forward kept is told by what is freed later: so only phases change, once all
// else is known.
func TellFailedLoss(a *rules.Facts) {
	if a.Recorded.Allocs || len(a.OOMs) == 0 || len(a.Steps) == 0 {
		return
	}
	failed := a.OOMs[len(a.OOMs)-1]
	root, of, ok := gradientOfLogits(a, failed)
	s := &a.Steps[len(a.Steps)-1]
	k := slices.IndexFunc(s.Phases, func(p meaning.PhaseSpan) bool { return p.FirstEvent <= failed && failed <= p.LastEvent })
	if !ok || k < 0 || s.Phases[k].Phase != meaning.Forward || s.Phases[k].FirstEvent >= root {
		return
	}
	p, before := s.Phases[k], s.Phases[k]
	before.LastEvent = root - 1
	over := min(a.Freed(a.Timeline.Of[root])-1, p.LastEvent)
	cut := []meaning.PhaseSpan{before, {Phase: meaning.Backward, FirstEvent: root, LastEvent: over}}
	if over < p.LastEvent {
		// an error is no pass
		cut = append(cut, meaning.PhaseSpan{Phase: meaning.OtherPhase, FirstEvent: over + 1, LastEvent: p.LastEvent})
	}
	s.Phases = slices.Replace(s.Phases, k, k+1, cut...)
	for _, id := range a.Allocs(root, over+1) {
		a.Phase[id] = meaning.Backward
	}
	if a.Category[of] == meaning.Logits {
		a.Detail[of] = meaning.LogitsGradient
	}
}

// gradientOfLogits reports whether a request fails as the second one of a backward
// pass: the loss makes one scalar and the weight of all targets, backward one more,
// at event root, and then a gradient as large as the log-softmax, which is of, from
// which comes another. Before a forward pass is over nobody makes three scalars and
// then as much as they are of.
func gradientOfLogits(a *rules.Facts, failed int) (root int, of timeline.AllocationID, ok bool) {
	const large, few = 1 << 20, 4 // bytes; allocations between the first gradient and the failure
	size := a.Events.Size[failed]
	if size < large {
		return 0, 0, false
	}
	var before []int // events that allocate, the last first
	for i := failed - 1; i >= 0 && len(before) < few+4; i-- {
		if a.Events.Action[i] == snapshot.Alloc {
			before = append(before, i)
		}
	}
	scalar := func(k int) bool {
		id := a.Timeline.Of[before[k]]
		return a.Timeline.Requested(id) <= phases.Scalar && a.Freed(id) > before[0]
	}
	there := func(id timeline.AllocationID) bool {
		return family(a.Timeline.Requested(id), size) && a.Freed(id) >= failed
	}
	for k := 1; k+3 < len(before); k++ {
		of := a.Timeline.Of[before[k-1]]
		if scalar(k) && scalar(k+1) && scalar(k+2) && there(a.Timeline.Of[before[k+3]]) && there(of) &&
			a.Freed(a.Timeline.Of[before[k]]) > failed {
			return before[k], of, true
		}
	}
	return 0, 0, false
}
