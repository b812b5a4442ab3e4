package phases

import (
	"slices"
	"strings"

	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// layersOfOne tells the layers of a single pass, as of a training that fails in
// its first, from iterations: nothing comes back within each, though the model's
// weights do; or each keeps most of what it took for a backward pass, and makes
// little.
//
// complexity: one walk over the events of each supposed pass counts all that is compared
func (a *Program) layersOfOne(starts []int, l *Layers) bool {
	const most, few = 256, 64 // layers of a model; allocations of a layer
	n := len(starts)
	if n < 3 || n > most {
		return false
	}
	unlike := l.groups > 0 && n <= l.groups+1 // any iteration through such a model
	last, keeping, ones := starts[n-1], 0, 0
	for k := range n - 1 {
		var sizes []int64
		var allocs []int
		var live, peak, kept int64 // beyond what was there when it began
		blocks := 0
		for i := starts[k]; i < starts[k+1]; i++ {
			id := a.Timeline.Of[i]
			switch a.Events.Action[i] {
			case snapshot.Alloc:
				sizes, allocs = append(sizes, a.Events.Size[i]), append(allocs, i)
				live += a.Timeline.Requested(id)
				peak = max(peak, live)
				if a.Freed(id) >= last {
					kept += a.Timeline.Requested(id)
					// but for autocast's copies
					blocks += AsInt(a.Timeline.Requested(id) > Scalar && !l.weights[2*a.Timeline.Requested(id)])
				}
			case snapshot.FreeRequested:
				if id != timeline.NoAllocation && a.Born(id) >= starts[k] {
					live -= a.Timeline.Requested(id)
				}
			}
		}
		if len(allocs) > few && !unlike {
			return false
		}
		if k == n/2 && (len(RecurringRuns(allocs, sizes)) > 2 || unlike && comesBack(sizes, max(3, l.groups))) {
			return false
		}
		if kept*2 >= peak && kept > 0 {
			keeping++
		}
		ones += AsInt(blocks == 1)
	}
	l.checkpointed = unlike && ones*5 >= (n-1)*4
	return unlike || keeping*5 >= (n-1)*4
}

// comesBack reports whether a run of values is there so many times, over a third of
// all.
func comesBack(values []int64, times int) bool {
	type seen struct{ first, times int }
	runs := timeline.NewRuns(values, runLength)
	tally := make([]seen, runs.Len())
	for k, run := range runs.At {
		s := &tally[run]
		if s.times == 0 {
			s.first = k
		}
		if s.times++; s.times >= times && (k-s.first)*3 >= len(values) {
			return true
		}
	}
	return false
}

// Layers is what is known of a model's layers without stacks.
type Layers struct {
	groups       int            // how often a run of sizes comes back in the weights
	weights      map[int64]bool // those sizes
	Most         bool           // of what is there are such layers
	checkpointed bool           // they were taken for steps, and keep one block each
}

// LayersOfModel looks at what is there before the loop and stays.
func (a *Program) LayersOfModel() (l Layers) {
	var allocs []int
	var sizes []int64
	l.weights = map[int64]bool{}
	for i := range a.Loop {
		if a.Events.Action[i] == snapshot.Alloc && a.Outlives(a.Timeline.Of[i]) {
			allocs, sizes = append(allocs, i), append(sizes, a.Events.Size[i])
			l.weights[a.Events.Size[i]] = true
		}
	}
	groups := RecurringRuns(allocs, sizes)
	l.groups, l.Most = len(groups), mostWithin(allocs, groups)
	return l
}

// recursWithin reports whether what recurs does so within one call of the model: the
// loop over its layers, then, and no loop around it. All of it comes from one line
// of a module's work, other lines of which allocate too, but not in between; or
// from modules of one kind that Sequential calls.
//
// complexity: stacks inside and outside the loop are compared in three ways
func (a *Program) recursWithin(allocs, starts []int) bool {
	inside, outside := make([]bool, len(a.Stacks)), make([]bool, len(a.Stacks))
	for _, i := range allocs {
		if starts[0] <= i && i < starts[len(starts)-1] {
			inside[a.Events.StackOf(i)] = true
		} else {
			outside[a.Events.StackOf(i)] = true
		}
	}
	s := a.Timeline.Snapshot
	view := frames.New(s)
	var in [][]snapshot.FrameID
	for id, ok := range inside {
		if !ok {
			continue
		}
		if frames := PythonFrames(view, s, snapshot.StackID(id)); len(frames) > 0 { // else of backward's thread
			in = append(in, frames)
		}
	}
	first, same, single := CommonLines(s, in)
	model := indexCall(s, first[:single])
	if model < 0 {
		return false
	}
	if k := indexFrame(s, first[:single], "forward", "torch/nn/modules/container.py"); k >= 0 {
		if child := indexCall(s, first[k:]); child > 0 && k+child+1 < same {
			return true
		}
	}
	for id, out := range outside {
		if !out || inside[id] {
			continue
		}
		frames := PythonFrames(view, s, snapshot.StackID(id))
		k := 0
		for k < min(single, len(frames)) && first[k] == frames[k] {
			k++
		}
		if k > model && k < min(single, len(frames)) && SameFunction(s, first[k], frames[k]) {
			return true
		}
	}
	return false
}

// CommonLines are the Python frames, outermost first, of the first of some stacks:
// all of them have the first so many functions in common, and of those the first
// so many lines.
func CommonLines(s *snapshot.Snapshot, in [][]snapshot.FrameID) (first []snapshot.FrameID, functions, lines int) {
	for i, frames := range in {
		if i == 0 {
			first, functions, lines = frames, len(frames), len(frames)
		}
		k := 0
		for k < min(functions, len(frames)) && SameFunction(s, first[k], frames[k]) {
			if first[k] != frames[k] {
				lines = min(lines, k)
			}
			k++
		}
		functions, lines = k, min(lines, k)
	}
	return first, functions, lines
}

// indexCall is the first frame in which torch calls a module; -1 without one.
func indexCall(s *snapshot.Snapshot, frames []snapshot.FrameID) int {
	return indexFrame(s, frames, "_call_impl", "torch/nn/modules/module.py")
}

func indexFrame(s *snapshot.Snapshot, frames []snapshot.FrameID, function, file string) int {
	return slices.IndexFunc(frames, func(f snapshot.FrameID) bool {
		x := &s.Frames[f]
		return s.String(x.Function) == function && strings.HasSuffix(s.String(x.File), file)
	})
}

// PythonFrames are the Python frames of a stack, outermost first.
func PythonFrames(view *frames.View, s *snapshot.Snapshot, id snapshot.StackID) []snapshot.FrameID {
	frames := slices.DeleteFunc(slices.Clone(s.Stack(id)), func(f snapshot.FrameID) bool {
		return view.Language(f) != frames.Python
	})
	slices.Reverse(frames)
	return frames
}

// SameFunction reports whether two frames are lines of one function.
func SameFunction(s *snapshot.Snapshot, a, b snapshot.FrameID) bool {
	x, y := &s.Frames[a], &s.Frames[b]
	return x.Function == y.Function && x.File == y.File
}

// mostWithin reports whether most of an ascending list lies in groups that begin at
// some events, the last one as long as the one before.
func mostWithin(events, groups []int) bool {
	n := len(groups)
	if n < 2 {
		return false
	}
	from, _ := slices.BinarySearch(events, groups[0])
	to, _ := slices.BinarySearch(events, 2*groups[n-1]-groups[n-2])
	return (to-from)*3 >= len(events)*2
}

func AsInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
