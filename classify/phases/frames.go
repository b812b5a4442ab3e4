package phases

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/snapshot"
)

// Frames is what stacks say by themselves.
var Frames = &Signal{
	ID: "frames",
	Doc: `Frames on the event's own stack name the phase: autograd's engine, an optimizer's step, a module's forward, a data
loader. In recordings of Python stacks alone, work without any frame is backward, for the engine's threads run no Python. Of
several, the innermost counts, but for backward, which counts wherever the engine is on the stack.`,
	Find: func(f *facts) found { return found{named: f.named} },
}

// hint finds the phases that the events' own stacks name.
func (v *StackFacts) hint(events *snapshot.Events) []said {
	out := pages.Make[said](events.Len())
	python := v.Recorded.Allocs && !v.Recorded.Native
	for i, action := range events.Action {
		switch action {
		case snapshot.Alloc, snapshot.FreeRequested, snapshot.FreeCompleted, snapshot.OOM:
		default:
			continue
		}
		if id := events.StackOf(i); id != 0 {
			e := &v.Stacks[id]
			if e.Marks&frames.Release == 0 || e.Hint != meaning.HintOf(meaning.Setup) {
				out[i] = said(e.Hint)
			}
		} else if python && (action == snapshot.Alloc || action == snapshot.OOM || v.Recorded.Frees &&
			action == snapshot.FreeRequested) {
			out[i] = said(meaning.HintOf(meaning.Backward))
		}
	}
	return out
}
