package phases

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Program is what events, phases, runs and steps of a device's program are: the facts
// that every rule may ask.
type Program struct {
	*meaning.Result
	*StackFacts
	Timeline         *timeline.Timeline
	Events           *snapshot.Events
	Phases           []meaning.Phase // by event
	Roots            []root
	Windows          []window       // optimizer steps and the like, by annotation
	Covered          []meaning.Hint // by event: within the window of an optimizer
	fused            []bool         // by event: within such a window in a backward pass; nil: none is
	stepping         []int          // first events of the windows in which an optimizer steps or clears
	Updates          bool           // an optimizer steps in one of the windows
	Loop             int            // first event of the program's loop
	Plain            bool           // there is no model, as far as stacks show
	Runs             []Run
	RunOf            []int32                        // by event
	NextBackward     []int32                        // by run: the first backward pass at or after it
	NextOptimizer    []int32                        // by run: the first optimizer run after it
	Trains           bool                           // it has a backward pass
	OOMs             []int                          // events of failed requests
	loads            map[snapshot.StackID]bool      // the program's lines that load batches
	Packed, Unpacked map[timeline.AllocationID]bool // flat buffers of weights, and what they were made of
	// layers of a pass that failed keep one block each, without stacks: what checkpointing does
	Checkpoints bool
	Sharing     []bool // by event: within a range that FSDP names
	Last        int    // number of events
	Stop        int    // that of the last allocation, and one
}

// Recorded says which stacks a recording has.
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

// Birth is the evidence of the stack that allocated; older blocks may have one
// too.
func (a *Program) Birth(id timeline.AllocationID) StackMarks { return a.Stacks[a.Timeline.Stack(id)] }

// Death is the evidence of the stack that freed.
func (a *Program) Death(id timeline.AllocationID) StackMarks {
	f := a.Timeline.FreeRequested[id]
	if int64(f) >= int64(a.Last) {
		return StackMarks{}
	}
	return a.Stacks[a.Events.StackOf(int(f))]
}

// Born is the event of an allocation's birth, -1 when it is older than the
// trace.
func (a *Program) Born(id timeline.AllocationID) int { return a.Timeline.BornAt(id) }

// Freed is the event of the request to free, the number of events when there is
// none within the trace.
func (a *Program) Freed(id timeline.AllocationID) int { return a.Timeline.FreedAt(id) }

// Outlives tells whether an allocation is still there after the last event.
func (a *Program) Outlives(id timeline.AllocationID) bool { return a.Timeline.Outlives(id) }
