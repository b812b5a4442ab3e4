package phases

import (
	"iter"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Program is what events, phases, runs and steps of a device's program are: the facts that every rule may ask.
type Program struct {
	*meaning.Result
	*StackFacts
	Timeline      *timeline.Timeline
	Events        *snapshot.Events
	Phases        []meaning.Phase // by event
	hints         []said          // by event: its phase as the signals had it, and which of them
	Windows       []window        // optimizer steps and the like, by annotation
	Covered       []meaning.Hint  // by event: within the window of an optimizer
	fused         []bool          // by event: within such a window in a backward pass; nil: none is
	Updates       bool            // an optimizer steps in one of the windows
	Loop          int             // first event of the program's loop
	Runs          []Run
	RunOf         []int32                        // by event
	NextBackward  []int32                        // by run: the first backward pass at or after it
	NextOptimizer []int32                        // by run: the first optimizer run after it
	Waiting       [][]meaning.Step               // passes in a row whose backward passes come later, or would have
	Trains        bool                           // it has a backward pass
	OOMs          []int                          // events of failed requests
	Loads         map[snapshot.StackID]bool      // the program's lines that load batches
	Packed        map[timeline.AllocationID]bool // flat buffers of weights
	// layers of a pass that failed keep one block each, without stacks: what checkpointing does
	Checkpoints bool
	Last        int  // number of events
	Stop        int  // that of the last allocation, and one; where the program is over, that from which on it lets go
	Over        bool // after it the program lets go of what it began with: it is over, and nothing of that was short-lived
}

// newProgram is what is known of a program before any signal was asked.
func newProgram(t *timeline.Timeline, v *StackFacts) *Program {
	n := t.Len()
	c := &meaning.Result{
		Timeline: t,
		Category: pages.Make[meaning.Category](n), Detail: pages.Make[meaning.Detail](n), Confidence: pages.Make[uint8](n),
		Signal: pages.Make[meaning.Signal](n), Rule: pages.Make[uint8](n), Phase: pages.Make[meaning.Phase](n),
		Step: pages.Make[int32](n),
	}
	a := &Program{Result: c, StackFacts: v, Timeline: t, Events: &t.Device.Events, Last: t.Device.Events.Len()}
	for i, action := range a.Events.Action {
		switch action {
		case snapshot.OOM:
			a.OOMs = append(a.OOMs, i)
		case snapshot.Alloc:
			a.Stop = i + 1
		}
	}
	a.Loop = a.Last
	a.Covered = pages.Make[meaning.Hint](a.Last)
	if a.Over = isOver(a); a.Over {
		begun := a.Stop / 2
		for i, id := range a.frees(a.Stop, a.Last) { // those before are the last step's own
			if a.Born(id) < begun {
				a.Stop = i
				break
			}
		}
	}
	return a
}

// allocs are the events from one up to another that allocate.
func (a *Program) allocs(from, to int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := from; i < to; i++ {
			if a.Events.Action[i] == snapshot.Alloc && !yield(i) {
				return
			}
		}
	}
}

// frees are the frees from one event up to another that are requested of known allocations.
func (a *Program) frees(from, to int) iter.Seq2[int, timeline.AllocationID] {
	return func(yield func(int, timeline.AllocationID) bool) {
		for i := from; i < to; i++ {
			id := a.Timeline.Of[i]
			if id != timeline.NoAllocation && a.Events.Action[i] == snapshot.FreeRequested && !yield(i, id) {
				return
			}
		}
	}
}

// made counts what is allocated.
func (a *Program) made(from, to int) (n int) {
	for range a.allocs(from, to) {
		n++
	}
	return n
}

// Birth is the evidence of the stack that allocated; older blocks may have one too.
func (a *Program) Birth(id timeline.AllocationID) StackMarks { return a.Stacks[a.Timeline.Stack(id)] }

// Death is the evidence of the stack that freed.
func (a *Program) Death(id timeline.AllocationID) StackMarks {
	f := a.Timeline.FreeRequested[id]
	if int64(f) >= int64(a.Last) {
		return StackMarks{}
	}
	return a.Stacks[a.Events.StackOf(int(f))]
}

// Born is the event of an allocation's birth, -1 when it is older than the trace.
func (a *Program) Born(id timeline.AllocationID) int { return a.Timeline.BornAt(id) }

// Freed is the event of the request to free, the number of events when there is none within the trace, or only when the
// program is over.
func (a *Program) Freed(id timeline.AllocationID) int {
	if f := a.Timeline.FreedAt(id); !a.Over || f < a.Stop {
		return f
	}
	return a.Last
}

// Outlives reports whether an allocation is still there when the program is over.
func (a *Program) Outlives(id timeline.AllocationID) bool {
	return a.Timeline.Outlives(id) || a.Over && a.Timeline.FreedAt(id) >= a.Stop
}

// isOver reports whether most of the oldest blocks that are there at the last allocation, made in the first half of the
// program, go after it, as when a function returns whose variables a model was held by.
func isOver(a *Program) bool {
	const part, some = 4, 8 // one in so many of those that are there; blocks of the smallest model
	var there []timeline.AllocationID
	for id := range timeline.AllocationID(a.Timeline.Len()) {
		if a.Timeline.FreedAt(id) >= a.Stop && a.Timeline.Requested(id) > Scalar {
			there = append(there, id)
		}
	}
	oldest, gone := there[:min(len(there), max(some, len(there)/part))], 0
	for _, id := range oldest {
		if !a.Timeline.Outlives(id) && a.Born(id) < a.Stop/2 {
			gone++
		}
	}
	return gone >= some && gone*2 > len(oldest)
}

// CublasSize tells torch's default workspaces: 32 MiB on Hopper, 8 MiB and a little before
// (aten/src/ATen/cuda/CublasHandlePool.cpp), 1 MiB for cuBLASLt's own (aten/src/ATen/cuda/CUDABlas.cpp).
func CublasSize(n int64) bool {
	return n == 32<<20 || n == 4096*1024*2+16*1024*8 || n == 1<<20
}

// IsWorkspaceBySize is true of a block of cuBLAS, which goes at once, where no C++ frame would name it.
func (a *Program) IsWorkspaceBySize(id timeline.AllocationID) bool {
	if !CublasSize(a.Timeline.Requested(id)) || a.Recorded.Native {
		return false
	}
	b := a.Born(id)
	return b >= 0 && a.Freed(id)-b <= 2
}
