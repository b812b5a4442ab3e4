package phases

import (
	"slices"
	"sync"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Setup tells where the loop begins.
var Setup = &Signal{
	ID: "setup",
	Doc: `Everything before the first work of another phase is setup, up to the first batch. With stacks, torch's functions
that the program calls outside of any module before its first pass belong to it. The batch is what lines allocate that
allocate again later, or, in a recording of one iteration, the last few things that the program's own lines made. A program whose
stacks show no model at all has no loop: all of its work is other. Nor has one that fails before its first pass over one of
several equal blocks of zeros, which are no batches. Without stacks, the rhythm of lives tells.`,
	Find: func(f *facts) (x found) {
		first := f.Last
		if noModel(f) {
			x.spans.add(0, f.Last, meaning.OtherPhase)
			x.loop = &first
			return x
		}
		for i := range f.allocs(0, f.Last) {
			if h := f.hint(i); h != 0 && h != meaning.HintOf(meaning.Setup) {
				first = i
				break
			}
		}
		if !f.Recorded.Allocs {
			return found{loop: new(min(first, f.Loop))}
		}
		if first == f.Last && zerosFail(f) {
			x.loop = &first
			return x
		}
		start := pastHelpers(f, first)
		if first < start {
			x.spans.add(first, start, meaning.Setup)
			x.spans[0].instead = meaning.HintOf(meaning.Forward)
		}
		x.loop = new(dataBefore(f, start, func(i int) bool {
			return f.hint(i).Is(meaning.Setup) || i >= first && f.hint(i).Is(meaning.Forward)
		}))
		return x
	},
}

// noModel tells programs that from their beginning on neither make nor load weights, run no module and train nothing.
func noModel(f *facts) bool {
	older := timeline.AllocationID(f.Timeline.Older())
	if f.All&frames.UserInner == 0 || f.All&(frames.Weight|frames.InModule) != 0 || int(older) == f.Timeline.Len() {
		return false
	}
	for id := range older {
		if f.Outlives(id) && f.Timeline.Stack(id) == 0 {
			return false // it may be one
		}
	}
	return !slices.ContainsFunc(f.hints, func(s said) bool { return s != 0 && !s.hint().Is(meaning.Setup) })
}

// zerosFail reports whether a request fails that is as large as the zeros which were made last.
func zerosFail(f *facts) bool {
	const several = 4
	id := f.Timeline.Len() - 1
	for n := 0; len(f.OOMs) == 1 && id >= f.Timeline.Older(); n, id = n+1, id-1 {
		zeros := f.Birth(timeline.AllocationID(id)).Marks&frames.Filled != 0
		if n == several {
			return true
		}
		if !zeros || f.Timeline.Requested(timeline.AllocationID(id)) != f.Events.Size[f.OOMs[0]] {
			break
		}
	}
	return false
}

// pastHelpers passes over torch's functions that a program's setup calls itself, outside of any module.
func pastHelpers(f *facts, first int) int {
	helper := func(i int) bool {
		return f.hint(i) == meaning.HintOf(meaning.Forward) &&
			f.Stacks[f.Events.StackOf(i)].Marks&(frames.InModule|frames.Engine) == 0
	}
	if first == f.Last || !helper(first) {
		return first
	}
	for i := range f.allocs(first, f.Last) {
		switch h := f.hint(i); {
		case h == 0 || h == meaning.HintOf(meaning.Setup) || helper(i):
		case h.Is(meaning.Forward, meaning.Generate, meaning.Data):
			return i
		default:
			return first // all of the only pass was such functions
		}
	}
	return first
}

// dataBefore goes back over the first batch: what is allocated right before the first forward, from lines that allocate again
// later or that a loader runs.
func dataBefore(f *facts, first int, isSetup func(int) bool) int {
	const few = 4                           // a recording of one iteration: what the program itself made last
	again := sync.OnceValue(func() []bool { // by stack: allocates after first
		out := make([]bool, len(f.Stacks))
		for k := range f.allocs(first+1, f.Last) {
			out[f.Events.StackOf(k)] = true
		}
		return out
	})
	back := func(most int, loads func(snapshot.StackID) bool) (start int) {
		start = first
		for i := first - 1; i >= 0 && most > 0 && !isSetup(i); i-- {
			if f.Events.Action[i] != snapshot.Alloc {
				continue
			}
			if !loads(f.Events.StackOf(i)) {
				break
			}
			start = i
			most--
		}
		return start
	}
	if start := back(first, func(id snapshot.StackID) bool { return again()[id] }); start < first {
		return start
	}
	return back(few, func(id snapshot.StackID) bool {
		return f.Stacks[id].Marks&(frames.UserInner|frames.Weight|frames.InModule|frames.Named) == frames.UserInner
	})
}
