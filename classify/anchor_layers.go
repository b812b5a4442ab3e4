package classify

import (
	"slices"
	"strings"

	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/stacks"
)

// recursWithin tells whether what recurs does so within one call of the model: the
// loop over its layers, then, and no loop around it. All of it comes from one line
// of a module's work, other lines of which allocate too, but not in between; or
// from modules of one kind that Sequential calls.
func (a *analysis) recursWithin(allocs, starts []int) bool {
	inside := make([]bool, len(a.stacks))
	for _, i := range allocs {
		if starts[0] <= i && i < starts[len(starts)-1] {
			inside[a.events.StackOf(i)] = true
		}
	}
	s := a.t.Snapshot
	view := stacks.New(s)
	first, same, single := commonLines(view, s, inside)
	model := indexCall(s, first[:single])
	if model < 0 {
		return false
	}
	if k := indexFrame(s, first[:single], "forward", "torch/nn/modules/container.py"); k >= 0 {
		if child := indexCall(s, first[k:]); child > 0 && k+child+1 < same {
			return true
		}
	}
	for id, in := range inside {
		if in {
			continue
		}
		frames := pythonFrames(view, s, snapshot.StackID(id))
		k := 0
		for k < min(single, len(frames)) && first[k] == frames[k] {
			k++
		}
		if k > model && k < min(single, len(frames)) && sameFunction(s, first[k], frames[k]) {
			return true
		}
	}
	return false
}

// commonLines are the Python frames, outermost first, of one of the given stacks:
// all of them have the first so many functions in common, and of those the first
// so many lines.
func commonLines(view *stacks.View, s *snapshot.Snapshot, in []bool) (first []snapshot.FrameID, functions, lines int) {
	for id, ok := range in {
		if !ok {
			continue
		}
		frames := pythonFrames(view, s, snapshot.StackID(id))
		if len(frames) == 0 { // of backward's thread
			continue
		}
		if first == nil {
			first, functions, lines = frames, len(frames), len(frames)
		}
		k := 0
		for k < min(functions, len(frames)) && sameFunction(s, first[k], frames[k]) {
			if first[k] != frames[k] {
				lines = min(lines, k)
			}
			k++
		}
		functions = k
		lines = min(lines, k)
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

// pythonFrames are the Python frames of a stack, outermost first.
func pythonFrames(view *stacks.View, s *snapshot.Snapshot, id snapshot.StackID) []snapshot.FrameID {
	frames := slices.DeleteFunc(slices.Clone(s.Stack(id)), func(f snapshot.FrameID) bool { return view.Language(f) != stacks.Python })
	slices.Reverse(frames)
	return frames
}

// sameFunction tells whether two frames are lines of one function.
func sameFunction(s *snapshot.Snapshot, a, b snapshot.FrameID) bool {
	x, y := &s.Frames[a], &s.Frames[b]
	return x.Function == y.Function && x.File == y.File
}
