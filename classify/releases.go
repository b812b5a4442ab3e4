package classify

import (
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// hintReleases is for recordings whose frees have no stacks though allocations
// have them (context="alloc"): what a backward pass or an optimizer lets go of
// right after its last allocation is still its own doing.
func (a *Program) hintReleases(hints []frames.Phase) {
	if !a.recorded.allocs || a.recorded.frees {
		return
	}
	optimizes := false // an optimizer allocates: gradients go after that
	weights := map[int64]bool{}
	for i, action := range a.events.Action {
		if action != snapshot.Alloc {
			continue
		}
		optimizes = optimizes || oneOf(hints[i], Optimizer)
		if i < a.loop && a.outlives(a.t.Of[i]) {
			weights[a.events.Size[i]] = true
		}
	}
	first, since := 0, 0 // of the work at hand; of the forward pass that it uses, too
	last := frames.Phase(0)
	for i := range hints {
		if h := hints[i]; h != 0 {
			if h != last && oneOf(h, Backward, Optimizer) {
				since, first = first, i
			}
			last = h
			continue
		}
		id := a.t.Of[i]
		if i == 0 || hints[i-1] == 0 || a.events.Action[i] == snapshot.Alloc || id == timeline.NoAllocation {
			continue
		}
		b := a.born(id)
		mayBeGradient := !optimizes && weights[a.t.Requested(id)]
		switch before := hints[i-1]; {
		case oneOf(before, Optimizer) && b >= first,
			oneOf(before, Backward) && b >= first && !mayBeGradient,
			oneOf(before, Backward) && b >= max(since, a.loop) && b < first && (hints[b] == 0 || oneOf(hints[b], Forward)):
			hints[i] = before
		}
	}
}
