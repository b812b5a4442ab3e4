package phases

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// FreesWithoutStacks is for recordings with context="alloc".
var FreesWithoutStacks = &Signal{
	ID: "frees-without-stacks",
	Doc: `What a backward pass or an optimizer frees right after its last allocation is still its own doing, where frees have
no stacks though allocations have. Gradients are left out of that where no optimizer allocates: what goes may be zero_grad's
work.`,
	Needs: []Need{Stacks, NoFreeStacks},
	Find:  freesAtEnds,
}

// freesAtEnds finds the frees with which work goes on.
func freesAtEnds(f *facts) (x found) {
	optimizes := false // an optimizer allocates: gradients go after that
	weights := map[int64]bool{}
	for i := range f.allocs(0, f.Last) {
		optimizes = optimizes || f.hint(i).Is(meaning.Optimizer)
		if i < f.Loop && f.Outlives(f.Timeline.Of[i]) {
			weights[f.Events.Size[i]] = true
		}
	}
	first, since := 0, 0 // of the work at hand; of the forward pass that it uses, too
	last, before := meaning.NoHint, meaning.NoHint
	for i := range f.hints {
		h := f.hint(i)
		if h != 0 {
			if h != last && h.Is(meaning.Backward, meaning.Optimizer) {
				since, first = first, i
			}
			last, before = h, h
			continue
		}
		work := before
		before = meaning.NoHint
		id := f.Timeline.Of[i]
		if work == 0 || f.Events.Action[i] == snapshot.Alloc || id == timeline.NoAllocation {
			continue
		}
		b := f.Born(id)
		mayBeGradient := !optimizes && weights[f.Timeline.Requested(id)]
		if work.Is(meaning.Optimizer) && b >= first || work.Is(meaning.Backward) && (b >= first && !mayBeGradient ||
			b >= max(since, f.Loop) && b < first && (f.hint(b) == 0 || f.hint(b).Is(meaning.Forward))) {
			before = work
			x.spans.add(i, i+1, work.Phase())
		}
	}
	return x
}
