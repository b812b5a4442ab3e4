package leaks

import (
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// fewOld is how many blocks of steps that a ring buffer has dropped are a likely list.
const fewOld = 6

// pile is what one stack made before the trace and what is still there, with what it made since.
type pile struct {
	stack    snapshot.StackID
	old, new []timeline.AllocationID
	bytes    int64 // of each block of it, requested
}

// overflowedLists are what a ring buffer that was too small still shows of a list: blocks of one
// size and call site that are older than the trace and still there, and at least one more, at most
// one a step, made after the window's first pass had begun. The steps that made them are lost, so it is only likely.
func overflowedLists(c *meaning.Result, view *frames.View) []Leak {
	if c.Timeline.History != timeline.Overflowed || len(c.Timeline.OOMs) > 0 && len(c.Steps) < 2 {
		return nil // a failure in the middle of a pass leaves the blocks of its layers, too
	}
	l := loopOf(c, view, wholeWindow(c))
	var found []Leak
	for _, p := range l.piles() {
		if len(p.old) < fewOld || len(p.new) == 0 || len(p.new) > len(c.Steps)+1 || !worksBetween(c, p.new) {
			continue
		}
		one := l.bytes(p.new[0])
		leak := Leak{Kind: GrowingList, Steps: len(p.new), BytesPerStep: one, Older: one * int64(len(p.old)), Confidence: 0.7}
		leak.TotalBytes = leak.Older + one*int64(len(p.new))
		if one < smallGrowth || leak.TotalBytes*100 < smallPart*l.t.Peaks.Allocated.Bytes {
			continue
		}
		var kept []survivor
		for _, id := range slices.Concat(p.old, p.new) {
			kept = append(kept, survivor{id, 0, 1})
		}
		l.describe(&leak, kept)
		leak.Site, leak.stack = l.keeper(GrowingList, pace{alive: kept})
		l.judge(&leak)
		leak.Suspected = true
		found = append(found, leak)
	}
	return found
}

// wholeWindow is all of the trace as one step.
func wholeWindow(c *meaning.Result) []meaning.Step {
	window := meaning.Step{LastEvent: c.Timeline.Device.Events.Len() - 1, PeakAllocated: c.Timeline.Peaks.Allocated.Bytes}
	for _, s := range c.Steps {
		window.Phases = append(window.Phases, s.Phases...)
	}
	return []meaning.Step{window}
}

// piles are the blocks that are still there by the stack that made them, of one size each, in the
// order of the first; without what stays for good reason, and what a pass saves of each of its layers.
func (l *loop) piles() []*pile {
	var all []*pile
	of := map[snapshot.StackID]*pile{}
	for id := range timeline.AllocationID(l.t.Len()) {
		stack := l.t.Stack(id)
		if l.t.FreeRequested[id] != timeline.Never || l.t.Requested(id) <= phases.Scalar || len(l.userLines(stack)) == 0 {
			continue
		}
		switch l.c.Category[id] {
		case meaning.Temporary, meaning.Inputs, meaning.Unknown:
		default:
			continue
		}
		p := of[stack]
		if p == nil {
			p = &pile{stack: stack, bytes: l.t.Requested(id)}
			of[stack] = p
			all = append(all, p)
		}
		switch {
		case p.bytes != l.t.Requested(id):
		case l.t.Born[id] == timeline.Never:
			p.old = append(p.old, id)
		default:
			p.new = append(p.new, id)
		}
	}
	return all
}

// worksBetween reports whether a pass is under way before each of some allocations, and after the one
// before it: a data set that is loaded at once has none.
func worksBetween(c *meaning.Result, ids []timeline.AllocationID) bool {
	from := timeline.AllocationID(c.Timeline.Older())
	for _, id := range ids {
		works := false
		for k := from; k < id && !works; k++ {
			works = c.Phase[k] == meaning.Forward || c.Phase[k] == meaning.Backward || c.Phase[k] == meaning.Generate
		}
		if !works {
			return false
		}
		from = id + 1
	}
	return true
}
