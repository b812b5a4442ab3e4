package phases

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/frames"
)

// Neighbors fills the gaps that all others leave.
var Neighbors = &Signal{
	ID: "neighbors",
	Doc: `No signal speaks of the event itself, and the phases before and after it tell. Between passes it is the next batch,
from the first thing on that is there until it has been used; where stacks tell which lines load batches, nothing else is one.
What lies between a backward pass and the optimizer is neither's.`,
	Find: func(f *facts) (x found) {
		f.kept = f.keeps()
		for i := 0; i < f.Last; i++ {
			if f.hints[i] != 0 {
				continue
			}
			first, before, after := i, meaning.NoHint, meaning.NoHint
			for i < f.Last && f.hints[i] == 0 {
				i++
			}
			if first > 0 {
				before = f.hint(first - 1)
			}
			if i < f.Last {
				after = f.hint(i)
			}
			fill(f, &x.spans, first, i, before, after)
		}
		return x
	},
}

// fill gives phases to the events of a gap between two known ones.
func fill(f *facts, out *spans, first, end int, before, after meaning.Hint) {
	middle, p := end, meaning.OtherPhase
	switch {
	case first < f.Loop:
		middle, p = min(f.Loop, end), meaning.Setup
	case isProgram(f, first, end, before, after):
	case before == after && before != 0 && !before.Is(meaning.Data, meaning.Optimizer): // most, by far
		p = before.Phase()
	case (f.IsFused(first-1) || before.Is(meaning.Backward)) && (f.IsFused(end) || after.Is(meaning.Backward)):
		p = meaning.Backward
	case after.Is(meaning.Forward, meaning.Data, meaning.Generate) && before.Is(meaning.Backward, meaning.Optimizer,
		meaning.ZeroGrad, meaning.Data, meaning.OtherPhase, meaning.Setup) ||
		before == 0 && after.Is(meaning.Forward, meaning.Generate):
		middle = nextBatch(f, first, end)
	default:
		p = within(f, before, after)
	}
	out.add(first, middle, p)
	out.add(middle, end, meaning.Data)
}

// isProgram is true of a gap between passes in which the program makes something: with C++ frames, the engine is on the stack of
// all that backward makes, and a hook, which the engine's thread runs, isn't called from where a program begins.
func isProgram(f *facts, first, end int, before, after meaning.Hint) bool {
	if !before.Is(meaning.Backward) || !after.Is(meaning.Backward) || f.IsFused(end) || f.made(first, end) == 0 {
		return false
	}
	for i := range f.allocs(first, end) {
		if id := f.Events.StackOf(i); !f.Recorded.Native && (id == 0 || f.Stacks[id].Called) {
			return false
		}
	}
	return true
}

// within is the phase of a gap in which no iteration begins.
func within(f *facts, before, after meaning.Hint) meaning.Phase {
	switch {
	case before.Is(meaning.Forward, meaning.Generate):
		return before.Phase()
	case after.Is(meaning.Backward), f.Recorded.Allocs && f.All&frames.InModule == 0 && before.Is(meaning.Data) &&
		after.Is(meaning.ZeroGrad):
		return meaning.Forward
	case before == 0 && after != 0:
		return after.Phase()
	}
	return meaning.OtherPhase
}

// nextBatch is where the next batch begins in a gap between two iterations. What a line only keeps is it, if nothing else is.
func nextBatch(f *facts, first, end int) int {
	kept := end
	for k := range f.allocs(first, end) {
		id := f.Timeline.Of[k]
		e := f.Birth(id)
		stays := f.Freed(id) > end && (!f.Outlives(id) || e.Marks&frames.UserInner != 0)
		switch {
		case (!stays || len(f.Loads) > 0) && e.Marks&frames.Input == 0:
		case !f.kept[f.Timeline.Stack(id)]:
			return k
		default:
			kept = min(kept, k)
		}
	}
	return kept
}
