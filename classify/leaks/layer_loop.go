package leaks

import (
	"slices"

	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// inModule reports whether what was taken for steps is a loop inside a module's
// forward, over its layers say: all that the loop allocates comes from within
// one forward, and either from one line of it, or other lines of the same
// forward allocate outside the loop.
func (l *loop) inModule() bool {
	inside, outside := l.pythonStacks()
	common := commonFrames(l.t.Snapshot, inside)
	depth := -1
	for i, f := range common {
		if l.isForward(f) {
			depth = i
		}
	}
	if depth < 0 {
		return false
	}
	lines := map[snapshot.FrameID]bool{}
	for _, frames := range inside {
		lines[frames[depth]] = true
	}
	if len(lines) == 1 {
		return true
	}
	same := func(a, b snapshot.FrameID) bool { return sameFunction(l.t.Snapshot, a, b) }
	return slices.ContainsFunc(outside, func(frames []snapshot.FrameID) bool {
		return len(frames) > depth && slices.EqualFunc(frames[:depth+1], common[:depth+1], same) && !lines[frames[depth]]
	})
}

// pythonStacks are the Python frames, outermost first, of the stacks that
// allocate in the loop, and of those that do outside.
func (l *loop) pythonStacks() (inside, outside [][]snapshot.FrameID) {
	s := l.t.Snapshot
	inLoop, known := make([]bool, s.NumStacks()), make([]bool, s.NumStacks())
	for id, step := range l.all() {
		if l.n <= 3 || step > 0 && step < l.n-1 { // half of the others may belong to what surrounds the loop
			inLoop[l.t.Stack(id)] = true
		}
	}
	for id := range timeline.AllocationID(l.t.Len()) {
		stack := l.t.Stack(id)
		if known[stack] {
			continue
		}
		known[stack] = true
		frames := pythonFrames(l.view, s, stack)
		if len(frames) == 0 { // of backward's thread
			continue
		}
		if inLoop[stack] {
			inside = append(inside, frames)
		} else {
			outside = append(outside, frames)
		}
	}
	return inside, outside
}

// isForward reports whether a frame is a module's forward.
func (l *loop) isForward(f snapshot.FrameID) bool {
	s := l.t.Snapshot
	return s.String(s.Frames[f].Function) == "forward" && l.view.Language(f) == frames.Python
}

// commonFrames are the Python frames, outermost first, of the first of some stacks, as
// far as all of them have the same functions.
func commonFrames(s *snapshot.Snapshot, in [][]snapshot.FrameID) (common []snapshot.FrameID) {
	for i, frames := range in {
		if i == 0 {
			common = frames
		}
		k := 0
		for k < min(len(common), len(frames)) && sameFunction(s, common[k], frames[k]) {
			k++
		}
		common = common[:k]
	}
	return common
}

// pythonFrames are the Python frames of a stack, outermost first.
func pythonFrames(view *frames.View, s *snapshot.Snapshot, id snapshot.StackID) []snapshot.FrameID {
	frames := slices.DeleteFunc(slices.Clone(s.Stack(id)), func(f snapshot.FrameID) bool {
		return view.Language(f) != frames.Python
	})
	slices.Reverse(frames)
	return frames
}

// sameFunction reports whether two frames are lines of one function.
func sameFunction(s *snapshot.Snapshot, a, b snapshot.FrameID) bool {
	x, y := &s.Frames[a], &s.Frames[b]
	return x.Function == y.Function && x.File == y.File
}
