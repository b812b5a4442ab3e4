package phases

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// hintReleases is for recordings whose frees have no stacks though allocations
// have them (context="alloc"): what a backward pass or an optimizer lets go of
// right after its last allocation is still its own doing.
//
// complexity: one walk keeps track of the work at hand and of the forward before it
func (a phaseFinder) hintReleases() {
	if !a.Recorded.Allocs || a.Recorded.Frees {
		return
	}
	optimizes := false // an optimizer allocates: gradients go after that
	weights := map[int64]bool{}
	for i, action := range a.Events.Action {
		if action != snapshot.Alloc {
			continue
		}
		optimizes = optimizes || a.hints[i].Is(meaning.Optimizer)
		if i < a.Loop && a.Outlives(a.Timeline.Of[i]) {
			weights[a.Events.Size[i]] = true
		}
	}
	first, since := 0, 0 // of the work at hand; of the forward pass that it uses, too
	last := meaning.NoHint
	for i := range a.hints {
		if h := a.hints[i]; h != 0 {
			if h != last && h.Is(meaning.Backward, meaning.Optimizer) {
				since, first = first, i
			}
			last = h
			continue
		}
		id := a.Timeline.Of[i]
		if i == 0 || a.hints[i-1] == 0 || a.Events.Action[i] == snapshot.Alloc || id == timeline.NoAllocation {
			continue
		}
		b := a.Born(id)
		mayBeGradient := !optimizes && weights[a.Timeline.Requested(id)]
		switch before := a.hints[i-1]; {
		case before.Is(meaning.Optimizer) && b >= first,
			before.Is(meaning.Backward) && b >= first && !mayBeGradient,
			before.Is(meaning.Backward) && b >= max(since, a.Loop) && b < first &&
				(a.hints[b] == 0 || a.hints[b].Is(meaning.Forward)):
			a.hints[i] = before
		}
	}
}
