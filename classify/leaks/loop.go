package leaks

import (
	"iter"
	"slices"
	"sort"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// loop is the program's loop as the search for leaks sees it: steps are
// counted from 0 here, whatever their numbers.
type loop struct {
	c    *meaning.Result
	t    *timeline.Timeline
	view *frames.View
	n    int

	steps       []meaning.Step
	first, last []uint32 // events of each step; steps tile the loop, gaps belong to the step before
	forward     []uint32 // first event of the step's first forward, Never without one
	forwardEnd  []uint32
	backward    []uint32 // first event of the step's first backward, Never without one
	trains      bool     // some step has a backward
	serves      bool     // a step is a whole request: its cache grows and is left behind

	// trained gives the lines that other passes run through, where the steps are
	// forward passes without a backward one in a program that trains; else nil.
	trained func() map[frames.Line]bool

	end *ending

	lines map[snapshot.StackID][]frames.Line
}

// newLoop is nil when there are too few steps to compare.
func newLoop(c *meaning.Result, view *frames.View) *loop {
	if len(c.Steps) < 2 {
		return nil
	}
	return loopOf(c, view, c.Steps)
}

func loopOf(c *meaning.Result, view *frames.View, steps []meaning.Step) *loop {
	n := len(steps)
	l := &loop{steps: steps, c: c, t: c.Timeline, view: view, n: n, lines: map[snapshot.StackID][]frames.Line{}}
	for k := range steps {
		s := &steps[k]
		last := uint32(max(s.LastEvent, s.FirstEvent))
		if k+1 < n {
			last = max(last, uint32(steps[k+1].FirstEvent)-1)
		}
		forward, forwardEnd, backward := timeline.Never, timeline.Never, timeline.Never
		for _, p := range s.Phases {
			switch at, end := uint32(p.FirstEvent), uint32(p.LastEvent); p.Phase {
			case meaning.Forward, meaning.Generate:
				if forward == timeline.Never {
					forward = at
				}
				if backward == timeline.Never {
					forwardEnd = end
				}
			case meaning.Backward:
				if backward == timeline.Never {
					backward = at
				}
				l.trains = true
			}
		}
		l.first, l.last = append(l.first, uint32(s.FirstEvent)), append(l.last, last)
		l.forward, l.forwardEnd = append(l.forward, forward), append(l.forwardEnd, forwardEnd)
		l.backward = append(l.backward, backward)
	}
	l.serves = !l.trains && slices.Contains(c.Category, meaning.KVCache) && l.perRequest()
	l.ending()
	return l
}

// untrained reports whether the steps are passes that aren't trained on.
func (l *loop) untrained() bool { return l.trained != nil }

// apart is the same loop for another goroutine: only what it has looked up is
// its own.
func (l *loop) apart() *loop {
	other := *l
	other.lines = map[snapshot.StackID][]frames.Line{}
	return &other
}

// stepAt is the step of an event: -1 before the first, n after the last.
func (l *loop) stepAt(event uint32) int {
	if event > l.last[l.n-1] {
		return l.n
	}
	return sort.Search(l.n, func(k int) bool { return l.first[k] > event }) - 1
}

// all are the allocations made in a step, with the step, in order.
func (l *loop) all() iter.Seq2[timeline.AllocationID, int] {
	return func(yield func(timeline.AllocationID, int) bool) {
		k, older := -1, l.t.Older()
		from := sort.Search(l.t.Len()-older, func(i int) bool { return l.t.Born[older+i] >= l.first[0] })
		for i := older + from; i < l.t.Len(); i++ {
			born := l.t.Born[i]
			for k+1 < l.n && l.first[k+1] <= born {
				k++
			}
			if born > l.last[l.n-1] || !yield(timeline.AllocationID(i), k) {
				return
			}
		}
	}
}

// cut reports whether the last step was ended by the recording or for want of
// memory rather than by the program.
func (l *loop) cut() bool {
	k := l.n - 1
	for _, o := range l.t.OOMs {
		if at := uint32(o.Event); o.Event >= 0 && at >= l.first[k] && at <= l.last[k] {
			return true
		}
	}
	last := l.last[k]
	if l.end.last != timeline.Never && l.t.Older() == 0 { // what goes with the program isn't the step's
		last = max(l.first[k], min(last, l.end.last))
	}
	return float64(last-l.first[k]+1) < 0.9*float64(l.last[k-1]-l.first[k-1]+1)
}

// whole is the number of steps that the recording has from beginning to end.
func (l *loop) whole() int {
	n := l.n
	if l.cut() {
		n--
	}
	if l.t.Older() > 0 && float64(l.last[0]-l.first[0]+1) < 0.9*float64(l.last[1]-l.first[1]+1) {
		n--
	}
	return n
}

// bytes is what an allocation takes on the device.
func (l *loop) bytes(id timeline.AllocationID) int64 { return l.t.Allocated[id] }

// userLines are the user's lines of a stack, innermost first.
func (l *loop) userLines(stack snapshot.StackID) []frames.Line {
	lines, known := l.lines[stack]
	if !known && stack != 0 {
		lines = l.view.User(stack)
		l.lines[stack] = lines
	}
	return lines
}

func siteOf(line frames.Line, bytes int64) Site {
	return Site{File: line.File, Line: line.Line, Function: line.Function, Bytes: bytes}
}

// peakAllocated is the largest number of bytes allocated in any step.
func (l *loop) peakAllocated() int64 {
	var peak int64
	for i := range l.steps {
		peak = max(peak, l.steps[i].PeakAllocated)
	}
	return peak
}

// perRequest reports whether caches are copied in every step several times for each
// one that stays, as while the tokens of one request are made.
func (l *loop) perRequest() bool {
	const several = 2
	copied, left := make([]int, l.n), make([]int, l.n)
	for id, step := range l.all() {
		if l.c.Category[id] != meaning.KVCache {
			continue
		}
		if died := l.t.FreeRequested[id]; died != timeline.Never && died <= l.last[step] {
			copied[step]++
		} else {
			left[step]++
		}
	}
	requests := 0
	for step, n := range left {
		if n > 0 && copied[step] >= several*n {
			requests++
		}
	}
	return requests*2 > l.n
}

// mayBeOneStep reports whether a few backward passes without an optimizer's step may be
// the micro-batches of the first step.
func (l *loop) mayBeOneStep(passes int) bool {
	return l.trains && passes <= 3 && len(l.endsOf(meaning.Optimizer)) == 0
}

// mayBeLayers reports whether the steps may be the layers of one pass, which keeps
// what each begins with: without stacks, where a request failed or the recording
// ends in the middle of one, they make few blocks, in which nothing comes back,
// and keep the same of each.
func (l *loop) mayBeLayers(kept []timeline.AllocationID) bool {
	const few, kinds = 128, 4
	of := map[int64]bool{}
	for _, id := range kept {
		of[l.t.Requested(id)] = true
	}
	if len(of) == 0 || len(of) > kinds || l.n < 2 {
		return false
	}
	if len(l.endsOf(meaning.Optimizer)) > 0 {
		return false
	}
	events := &l.t.Device.Events
	broken := l.view.Recorded(l.t.Device) == "none" && (l.cut() || slices.Contains(events.Action[l.first[l.n-1]:], snapshot.OOM))
	if !broken {
		return false
	}
	allocs, repeats := l.within(l.n / 2)
	return allocs <= few && repeats < 3
}

// within counts what a step allocates, and the stretches of it that come back: its own layers.
func (l *loop) within(step int) (allocs, repeats int) {
	events := &l.t.Device.Events
	var at []int
	var sizes []int64
	for i := int(l.first[step]); i <= int(l.last[step]) && i < events.Len(); i++ {
		if events.Action[i] == snapshot.Alloc {
			at, sizes = append(at, i), append(sizes, events.Size[i])
		}
	}
	return len(at), len(phases.RecurringRuns(at, sizes))
}
