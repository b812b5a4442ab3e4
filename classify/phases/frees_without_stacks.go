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
no stacks though allocations have. A backward pass has ended once the scalar with which it began is freed. Gradients are left
out of that where no optimizer allocates: what goes may be zero_grad's work.`,
	Needs: []Need{Stacks, NoFreeStacks},
	Find:  freesAtEnds,
}

// freesAtEnds finds the frees with which work goes on.
func freesAtEnds(f *facts) (x found) {
	gradients := f.clearedByThemselves()
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
		if !f.freedBy(work, id, first, since, gradients) {
			continue
		}
		x.spans.add(i, i+1, work.Phase())
		root := f.Born(id) == first && f.Timeline.Requested(id) <= Scalar // the gradient of the loss: with it backward() returns
		if work.Is(meaning.Optimizer) || !root || f.Events.Action[i] != snapshot.FreeCompleted {
			before = work
		}
	}
	return x
}

// freedBy reports whether work frees this: what it made itself, but for gradients of a backward pass, or what the forward pass
// before a backward pass saved. The first events of both are given.
func (f *facts) freedBy(work meaning.Hint, id timeline.AllocationID, first, forward int, gradients map[int64]bool) bool {
	b, backward := f.Born(id), work.Is(meaning.Backward)
	if b >= first {
		return backward && !gradients[f.Timeline.Requested(id)] || work.Is(meaning.Optimizer)
	}
	return backward && b >= max(forward, f.Loop) && (f.hint(b) == 0 || f.hint(b).Is(meaning.Forward))
}

// clearedByThemselves are the sizes of gradients that zero_grad may free outside all passes: of weights, where no optimizer
// allocates, after which they would go.
func (f *facts) clearedByThemselves() map[int64]bool {
	sizes := map[int64]bool{}
	for i := range f.allocs(0, f.Last) {
		if f.hint(i).Is(meaning.Optimizer) {
			return nil
		}
		if i < f.Loop && f.Outlives(f.Timeline.Of[i]) {
			sizes[f.Events.Size[i]] = true
		}
	}
	return sizes
}
