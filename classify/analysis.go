package classify

import (
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// analysis is what the signals share while they look at one device.
type analysis struct {
	*Classification
	*Evidence
	t      *timeline.Timeline
	events *snapshot.Events

	phases   []Phase // by event
	roots    []root
	windows  []window       // optimizer steps and the like, by annotation
	covered  []frames.Phase // by event: within the window of an optimizer
	fused    []bool         // by event: within such a window in a backward pass; nil: none is
	stepping []int          // first events of the windows in which an optimizer steps or clears
	updates  bool           // an optimizer steps in one of the windows
	loop     int            // first event of the program's loop
	plain    bool           // there is no model, as far as stacks show

	runs          []run
	runOf         []int32 // by event
	nextBackward  []int32 // by run: the first backward pass at or after it
	nextOptimizer []int32 // by run: the first optimizer run after it
	trains        bool    // it has a backward pass
	saves         bool    // forward keeps what a backward pass would need
	inBulk        []bool  // by allocation: freed together with many others
	ooms          []int   // events of failed requests

	weightSize map[int64]int                    // requested bytes of what looks like weights
	weightHalf map[int64]bool                   // half of them
	stateSize  map[int64]bool                   // requested bytes of what an optimizer makes and keeps
	logits     []Detail                         // by allocation: scores, NoDetail for anything else
	widest     map[timeline.AllocationID]bool   // may be scores, though no loss shows
	doubtful   map[timeline.AllocationID]uint8  // how sure scores are that no loss shows of
	spare      map[timeline.AllocationID]bool   // what an optimizer worked in when its request failed
	resumed    map[timeline.AllocationID]Detail // moments that come from a checkpoint
	chunks     map[timeline.AllocationID]bool   // scores of a part of the tokens, as of a loss that is worked out in parts
	labels     map[timeline.AllocationID]Category
	growing    map[int64][]int                 // sizes of a cache that grows, and events at which such blocks are there
	chains     [][]*grown                      // a growing cache in every pass of one request
	older      map[timeline.AllocationID]claim // blocks older than the trace that stay
	// events: from which blocks older than the trace last; the last that makes something
	settled, made int
	graphs        map[snapshot.StackID]bool // of which blocks older than the trace are parts of autograd graphs
	// by run: the first optimizer's step at or after it, or backward pass where steps make nothing
	nextStep         []int32
	gradientIn       map[int64][]int32              // runs that leave gradients of a size, in order
	replaced         sparse[claim]                  // weights and state that a step puts others in the place of
	gradientSize     map[int64]int                  // gradients that one step makes, by requested bytes
	copies           []bool                         // by allocation: casts of autocast, by size
	loads            map[snapshot.StackID]bool      // the program's lines that load batches
	heads            []bool                         // by StackID: of the last linear map of the model
	kept             []bool                         // by allocation: outlive backward in numbers of one size: keys and values
	buckets, dataset map[timeline.AllocationID]bool // by their sizes, without stacks
	guessed          map[timeline.AllocationID]bool // kept by setup, without stacks, and maybe no weights
	twins            map[timeline.AllocationID]bool // copies of all weights
	packed, unpacked map[timeline.AllocationID]bool // flat buffers of weights, and what they were made of
	retained         []bool                         // by run: a forward whose graph outlives its backward
	retains          bool                           // most of them
	moved            set                            // copies for what goes at once
	// by allocation: the event, and 1, at which the last copy goes of what such a copy takes the place of; nil: there is none
	reordered   []int32
	recomputed  []bool // by allocation: made again inside backward, by sizes
	lastFlat    int32  // line that makes Megatron's buffers of gradients
	checkpoints bool   // layers of a pass that failed keep one block each, without stacks: what checkpointing does
	bucketViews bool   // gradients are views of the buckets

	sharing []bool // by event: within a range that FSDP names

	last int // number of events
	stop int // that of the last allocation, and one
}

// recorded says which stacks a recording has.
type recorded struct {
	allocs, frees bool // at least some of them have a stack
	native        bool // with C++ frames
}

// Evidence is what the stacks of a device's events say by themselves.
type Evidence struct {
	stacks   []evidence   // by StackID
	all      frames.Marks // of any of them
	recorded recorded
	hints    []frames.Phase // by event: the phase that its own stack names
	followed *analysis
}

// Gather looks at a device's stacks. It needs no timeline: both may be made at
// the same time.
func Gather(s *snapshot.Snapshot, d *snapshot.Device) *Evidence {
	v := &Evidence{stacks: judgeStacks(s)}
	for _, e := range v.stacks {
		v.all |= e.Marks
	}
	v.recorded = v.what(&d.Events)
	v.hints = v.hint(&d.Events)
	return v
}

// what tells which stacks the events have.
func (v *Evidence) what(events *snapshot.Events) (r recorded) {
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
func (v *Evidence) hint(events *snapshot.Events) []frames.Phase {
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
func (a *analysis) birth(id timeline.AllocationID) evidence { return a.stacks[a.t.Stack(id)] }

// death is the evidence of the stack that freed.
func (a *analysis) death(id timeline.AllocationID) evidence {
	f := a.t.FreeRequested[id]
	if int64(f) >= int64(a.last) {
		return evidence{}
	}
	return a.stacks[a.events.StackOf(int(f))]
}

// born is the event of an allocation's birth, -1 when it is older than the
// trace.
func (a *analysis) born(id timeline.AllocationID) int { return a.t.BornAt(id) }

// freed is the event of the request to free, the number of events when there is
// none within the trace.
func (a *analysis) freed(id timeline.AllocationID) int { return a.t.FreedAt(id) }

// outlives tells whether an allocation is still there after the last event.
func (a *analysis) outlives(id timeline.AllocationID) bool { return a.t.Outlives(id) }
