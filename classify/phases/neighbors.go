package phases

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/frames"
)

// Neighbors fills the gaps that all others leave.
var Neighbors = &Signal{
	ID: "neighbors",
	Doc: `No signal speaks of the event itself, and the phases before and after it tell. Between passes it is the next batch, from
the first thing on that is there until it has been used; where stacks tell which lines load batches, nothing else is one. What
lies between a backward pass and the optimizer is neither's.`,
	Find: func(f *facts) found {
		return found{fill: func(g gap) (int, meaning.Phase, meaning.Phase) { return fill(f, g) }}
	},
}

// fill gives the events of a gap a phase up to one in its middle, and another from there on.
//
// complexity: one case for each pair of phases that may surround a gap
func fill(f *facts, g gap) (middle int, p, then meaning.Phase) {
	all := func(p meaning.Phase) (int, meaning.Phase, meaning.Phase) { return g.end, p, p }
	switch before, after := g.before, g.after; {
	case g.first < f.Loop:
		return f.Loop, meaning.Setup, meaning.Data
	case before == after && before != 0 && !before.Is(meaning.Data, meaning.Optimizer): // most, by far
		return all(before.Phase())
	case (f.IsFused(g.first-1) || before.Is(meaning.Backward)) && (f.IsFused(g.end) || after.Is(meaning.Backward)):
		return all(meaning.Backward)
	case before.Is(meaning.Backward) && after.Is(meaning.Optimizer):
		return all(meaning.OtherPhase)
	case after.Is(meaning.Forward, meaning.Data, meaning.Generate) && before.Is(meaning.Backward, meaning.Optimizer,
		meaning.ZeroGrad, meaning.Data, meaning.OtherPhase, meaning.Setup) ||
		before == 0 && after.Is(meaning.Forward, meaning.Generate):
		return nextBatch(f, g), meaning.OtherPhase, meaning.Data
	case before.Is(meaning.Forward, meaning.Generate):
		return all(before.Phase())
	case after.Is(meaning.Backward), f.Recorded.Allocs && f.All&frames.InModule == 0 && before.Is(meaning.Data) &&
		after.Is(meaning.ZeroGrad):
		return all(meaning.Forward)
	case before == 0 && after != 0:
		return all(after.Phase())
	}
	return all(meaning.OtherPhase)
}

// nextBatch is where the next batch begins in a gap between two iterations.
func nextBatch(f *facts, g gap) int {
	for k := range f.allocs(g.first, g.end) {
		id := f.Timeline.Of[k]
		e := f.Birth(id)
		stays := f.Freed(id) > g.end && (!f.Outlives(id) || e.Marks&frames.UserInner != 0)
		if stays && len(f.Loads) == 0 || e.Marks&frames.Input != 0 {
			return k
		}
	}
	return g.end
}
