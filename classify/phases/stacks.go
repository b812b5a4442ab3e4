package phases

import (
	"github.com/vramscope/vramscope/frames"
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
	named    []said // by event: the phase that its own stack names, used up by Follow
}

// Gather looks at a device's stacks. It needs no timeline: both may be made at the same time.
func Gather(s *snapshot.Snapshot, d *snapshot.Device) *StackFacts {
	v := &StackFacts{Stacks: judgeStacks(s)}
	for _, e := range v.Stacks {
		v.All |= e.Marks
	}
	v.Recorded = v.what(&d.Events)
	v.named = v.hint(&d.Events)
	return v
}

// what tells which stacks the events have.
func (v *StackFacts) what(events *snapshot.Events) (r recorded) {
	most := recorded{true, true, v.All&frames.Native != 0}
	for i, action := range events.Action {
		id := events.StackOf(i)
		if id == 0 || action != snapshot.Alloc && action != snapshot.FreeRequested {
			continue
		}
		r.Allocs, r.Frees = r.Allocs || action == snapshot.Alloc, r.Frees || action != snapshot.Alloc
		if r.Native = r.Native || v.Stacks[id].Marks&frames.Native != 0; r == most {
			break
		}
	}
	return r
}
