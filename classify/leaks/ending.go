package leaks

import (
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// ending is what goes with the program after its last request: what it held until then, it kept.
type ending struct {
	last uint32                    // event of the last allocation, Never without one
	all  bool                      // that goes later goes with the program
	with map[snapshot.StackID]bool // else what is freed under one of these stacks does
}

// died is the event at which an allocation was let go, Never where it is still there or went
// with the program.
func (l *loop) died(id timeline.AllocationID) uint32 {
	died := l.t.FreeRequested[id]
	if died >= timeline.Before || died <= l.end.last {
		return died
	}
	if l.end.all || l.end.with[l.t.Device.Events.StackOf(int(died))] {
		return timeline.Never
	}
	return died
}

// ending looks at the frees after the last request. A function's variables go under the stack
// that called it, and a module's under none; what the loop itself lets go is freed from within it.
func (l *loop) ending() {
	const few = 4 // steps
	e := &ending{last: timeline.Never, with: map[snapshot.StackID]bool{}}
	l.end = e
	request := l.lastRequest()
	if request == timeline.Never {
		return
	}
	if e.last = l.lastOf(request); e.last == timeline.Never {
		return
	}
	if e.all = l.t.End.Allocated == 0 || l.n >= few && !l.freesShown() &&
		(l.lastingGo(e.last) || (l.trains || l.t.Older() == 0) && l.emptied()); e.all {
		return
	}
	inside, _ := l.pythonStacks()
	common := commonFrames(l.t.Snapshot, inside)
	shown := l.freesShown()
	events := &l.t.Device.Events
	for i := int(e.last) + 1; i < events.Len(); i++ {
		stack := events.StackOf(i)
		if _, known := e.with[stack]; !known && events.Action[i] == snapshot.FreeRequested {
			e.with[stack] = stack == 0 && shown || l.returned(stack, inside, len(common))
		}
	}
}

// returned reports whether a stack is that of a call of the path to the loop, of so many frames, that is over.
func (l *loop) returned(stack snapshot.StackID, inside [][]snapshot.FrameID, path int) bool {
	caller := pythonFrames(l.view, l.t.Snapshot, stack)
	n := len(caller)
	return n > 0 && n < path && slices.ContainsFunc(inside, func(frames []snapshot.FrameID) bool {
		return slices.Equal(frames[:n], caller)
	})
}

// lastRequest is the event of the last allocation, Never without one.
func (l *loop) lastRequest() uint32 {
	if n := l.t.Len(); n > 0 {
		return l.t.Born[n-1]
	}
	return timeline.Never
}

// lastOf is the event before the first after the last request that frees what was made before the last two steps: those
// up to there are the last step's own. A list lets its newest elements go first: they go with the older ones that are
// freed behind them by the same call.
func (l *loop) lastOf(request uint32) uint32 {
	events := &l.t.Device.Events
	old := int(l.first[max(0, l.n-2)])
	for i := int(request) + 1; i < events.Len(); i++ {
		id := l.t.Of[i]
		if id == timeline.NoAllocation || events.Action[i] != snapshot.FreeRequested || l.t.BornAt(id) >= old {
			continue
		}
		for j := i - 1; j > int(request); j-- {
			if events.Action[j] != snapshot.FreeRequested {
				continue
			}
			of := l.t.Of[j]
			if of == timeline.NoAllocation || l.bytes(of) != l.bytes(id) || !l.sameCall(events.StackOf(j), events.StackOf(i)) {
				break
			}
			i = j
		}
		return uint32(i) - 1
	}
	return timeline.Never
}

// sameCall reports whether two stacks are of the same lines of Python.
func (l *loop) sameCall(x, y snapshot.StackID) bool {
	return x == y || slices.Equal(pythonFrames(l.view, l.t.Snapshot, x), pythonFrames(l.view, l.t.Snapshot, y))
}

// freesShown reports whether frees before the last request have stacks.
func (l *loop) freesShown() bool {
	events := &l.t.Device.Events
	for i := int(l.first[0]); i <= int(l.last[0]) && i < events.Len(); i++ {
		if events.Action[i] == snapshot.FreeRequested && events.StackOf(i) != 0 {
			return true
		}
	}
	return false
}

// lastingGo reports whether most of the weights, or of the optimizer's state, that are there at
// the last request go after it: both are kept by variables that the loop needs.
func (l *loop) lastingGo(last uint32) bool {
	var there, gone [meaning.NumCategories]int64
	for i, category := range l.c.Category {
		id := timeline.AllocationID(i)
		if died := l.t.FreeRequested[id]; died != timeline.Before && died > last {
			there[category] += l.bytes(id)
			if died != timeline.Never {
				gone[category] += l.bytes(id)
			}
		}
	}
	return 2*gone[meaning.Weights] > there[meaning.Weights] || 2*gone[meaning.OptimizerState] > there[meaning.OptimizerState]
}

// emptied reports whether hardly anything is left of what the loop made, though variables carried
// some of it from each step to the next. What lasts for good reason aside.
func (l *loop) emptied() bool {
	const hardly = 100 // one part in so many
	carried := 0
	var left, gone int64
	for id, step := range l.all() {
		died := l.t.FreeRequested[id]
		switch {
		case lasting[l.c.Category[id]]:
			continue
		case died == timeline.Never:
			left += l.bytes(id)
		case died > l.end.last:
			gone += l.bytes(id)
		case step+1 < l.n && died > l.last[step] && died <= l.last[step+1]:
			carried++
		}
	}
	return left*hardly <= gone && carried >= l.n-2
}
