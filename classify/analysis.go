package classify

import (
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Program is what events, phases, runs and steps of a device's program are: the facts
// that every rule may ask.
type Program struct {
	*Result
	*StackFacts
	t                *timeline.Timeline
	events           *snapshot.Events
	phases           []Phase // by event
	roots            []root
	windows          []window       // optimizer steps and the like, by annotation
	covered          []frames.Phase // by event: within the window of an optimizer
	fused            []bool         // by event: within such a window in a backward pass; nil: none is
	stepping         []int          // first events of the windows in which an optimizer steps or clears
	updates          bool           // an optimizer steps in one of the windows
	loop             int            // first event of the program's loop
	plain            bool           // there is no model, as far as stacks show
	runs             []run
	runOf            []int32                        // by event
	nextBackward     []int32                        // by run: the first backward pass at or after it
	nextOptimizer    []int32                        // by run: the first optimizer run after it
	trains           bool                           // it has a backward pass
	ooms             []int                          // events of failed requests
	loads            map[snapshot.StackID]bool      // the program's lines that load batches
	packed, unpacked map[timeline.AllocationID]bool // flat buffers of weights, and what they were made of
	checkpoints      bool                           // layers of a pass that failed keep one block each, without stacks: what checkpointing does
	sharing          []bool                         // by event: within a range that FSDP names
	last             int                            // number of events
	stop             int                            // that of the last allocation, and one
}

// recorded says which stacks a recording has.
type recorded struct {
	allocs, frees bool // at least some of them have a stack
	native        bool // with C++ frames
}

// StackFacts are what the stacks of a device's events say by themselves.
type StackFacts struct {
	stacks   []evidence   // by StackID
	all      frames.Marks // of any of them
	recorded recorded
	hints    []frames.Phase // by event: the phase that its own stack names
}

// gatherEvidence looks at a device's stacks. It needs no timeline: both may be made at
// the same time.
func gatherEvidence(s *snapshot.Snapshot, d *snapshot.Device) *StackFacts {
	v := &StackFacts{stacks: judgeStacks(s)}
	for _, e := range v.stacks {
		v.all |= e.Marks
	}
	v.recorded = v.what(&d.Events)
	v.hints = v.hint(&d.Events)
	return v
}

// what tells which stacks the events have.
func (v *StackFacts) what(events *snapshot.Events) (r recorded) {
	most := recorded{true, true, v.all&frames.Native != 0}
	for i, action := range events.Action {
		if action != snapshot.Alloc && action != snapshot.FreeRequested {
			continue
		}
		id := events.StackOf(i)
		if id == 0 {
			continue
		}
		if action == snapshot.Alloc {
			r.allocs = true
		} else {
			r.frees = true
		}
		if v.stacks[id].Marks&frames.Native != 0 {
			r.native = true
		}
		if r == most {
			break
		}
	}
	return r
}

// hint finds the phases that the events' own stacks name.
func (v *StackFacts) hint(events *snapshot.Events) []frames.Phase {
	out := pages.Make[frames.Phase](events.Len())
	python := v.recorded.allocs && !v.recorded.native
	for i, action := range events.Action {
		switch action {
		case snapshot.Alloc, snapshot.FreeRequested, snapshot.FreeCompleted, snapshot.OOM:
		default:
			continue
		}
		if id := events.StackOf(i); id != 0 {
			e := &v.stacks[id]
			out[i] = e.hint
			if e.Marks&frames.Release != 0 && out[i] == hintOf(Setup) {
				out[i] = 0
			}
		} else if python && (action == snapshot.Alloc || action == snapshot.OOM || v.recorded.frees &&
			action == snapshot.FreeRequested) {
			out[i] = hintOf(Backward) // the engine's threads run no Python
		}
	}
	return out
}

// birth is the evidence of the stack that allocated; older blocks may have one
// too.
func (a *Program) birth(id timeline.AllocationID) evidence { return a.stacks[a.t.Stack(id)] }

// death is the evidence of the stack that freed.
func (a *Program) death(id timeline.AllocationID) evidence {
	f := a.t.FreeRequested[id]
	if int64(f) >= int64(a.last) {
		return evidence{}
	}
	return a.stacks[a.events.StackOf(int(f))]
}

// born is the event of an allocation's birth, -1 when it is older than the
// trace.
func (a *Program) born(id timeline.AllocationID) int { return a.t.BornAt(id) }

// freed is the event of the request to free, the number of events when there is
// none within the trace.
func (a *Program) freed(id timeline.AllocationID) int { return a.t.FreedAt(id) }

// outlives tells whether an allocation is still there after the last event.
func (a *Program) outlives(id timeline.AllocationID) bool { return a.t.Outlives(id) }
