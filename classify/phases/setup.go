package phases

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
)

// Setup tells where the loop begins.
var Setup = &Signal{
	ID: "setup",
	Doc: `Everything before the first work of another phase is setup, up to the first batch. With stacks, torch's functions that
the program calls outside of any module before its first pass belong to it, and the batch is what lines allocate that allocate
again later; in a recording of one iteration, the last few things that the program's own lines made. A program without a model has
no loop. Without stacks, the rhythm of lives tells.`,
	Find: func(f *facts) (x found) {
		first := f.Last
		if f.plain {
			return found{loop: &first}
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
		start := pastHelpers(f, first)
		if first < start {
			x.spans = spans{{phase: meaning.Setup, first: first, end: start, instead: meaning.HintOf(meaning.Forward)}}
		}
		x.loop = new(dataBefore(f, start, func(i int) bool {
			return f.hint(i).Is(meaning.Setup) || i >= first && f.hint(i).Is(meaning.Forward)
		}))
		return x
	},
}

// pastHelpers passes over torch's functions that a program's setup calls itself, outside
// of any module.
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

// dataBefore goes back over the first batch: what is allocated right before the
// first forward, from lines that allocate again later or that a loader runs.
func dataBefore(f *facts, first int, isSetup func(int) bool) int {
	var again []bool // by stack: allocates after first
	start := first
	for i := first - 1; i >= 0 && !isSetup(i); i-- {
		if f.Events.Action[i] != snapshot.Alloc {
			continue
		}
		if again == nil {
			again = make([]bool, len(f.Stacks))
			for k := range f.allocs(first+1, f.Last) {
				again[f.Events.StackOf(k)] = true
			}
		}
		if !again[f.Events.StackOf(i)] {
			break
		}
		start = i
	}
	if start < first {
		return start
	}
	const few = 4 // a recording of one iteration: what the program itself made last
	for i, n := first-1, 0; i >= 0 && n < few && !isSetup(i); i-- {
		if f.Events.Action[i] == snapshot.Alloc {
			if e := f.Stacks[f.Events.StackOf(i)]; e.Marks&frames.UserInner == 0 ||
				e.Marks&(frames.Weight|frames.InModule|frames.Named) != 0 {
				break
			}
			start = i
			n++
		}
	}
	return start
}
