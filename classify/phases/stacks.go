package phases

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/snapshot"
)

// recorded says which stacks a recording has.
type recorded struct {
	Allocs, Frees bool // at least some of them have a stack
	Native        bool // with C++ frames
}

// StackFacts are what the stacks of a device's events say by themselves.
type StackFacts struct {
	Stacks   []StackMarks // by StackID
	All      frames.Marks // of any of them
	Recorded recorded
	hints    []meaning.Hint // by event: the phase that its own stack names
}

// Gather looks at a device's stacks. It needs no timeline: both may be made at
// the same time.
func Gather(s *snapshot.Snapshot, d *snapshot.Device) *StackFacts {
	v := &StackFacts{Stacks: judgeStacks(s)}
	for _, e := range v.Stacks {
		v.All |= e.Marks
	}
	v.Recorded = v.what(&d.Events)
	v.hints = v.hint(&d.Events)
	return v
}

// what tells which stacks the events have.
func (v *StackFacts) what(events *snapshot.Events) (r recorded) {
	most := recorded{true, true, v.All&frames.Native != 0}
	for i, action := range events.Action {
		if action != snapshot.Alloc && action != snapshot.FreeRequested {
			continue
		}
		id := events.StackOf(i)
		if id == 0 {
			continue
		}
		if action == snapshot.Alloc {
			r.Allocs = true
		} else {
			r.Frees = true
		}
		if v.Stacks[id].Marks&frames.Native != 0 {
			r.Native = true
		}
		if r == most {
			break
		}
	}
	return r
}

// hint finds the phases that the events' own stacks name.
func (v *StackFacts) hint(events *snapshot.Events) []meaning.Hint {
	out := pages.Make[meaning.Hint](events.Len())
	python := v.Recorded.Allocs && !v.Recorded.Native
	for i, action := range events.Action {
		switch action {
		case snapshot.Alloc, snapshot.FreeRequested, snapshot.FreeCompleted, snapshot.OOM:
		default:
			continue
		}
		if id := events.StackOf(i); id != 0 {
			e := &v.Stacks[id]
			out[i] = e.Hint
			if e.Marks&frames.Release != 0 && out[i] == meaning.HintOf(meaning.Setup) {
				out[i] = 0
			}
		} else if python && (action == snapshot.Alloc || action == snapshot.OOM || v.Recorded.Frees &&
			action == snapshot.FreeRequested) {
			out[i] = meaning.HintOf(meaning.Backward) // the engine's threads run no Python
		}
	}
	return out
}
