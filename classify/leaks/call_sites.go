package leaks

import (
	"slices"

	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// surround fills in where what a leak keeps is made, and where its line is
// called from: the line alone may not be the one to change.
func (l *loop) surround(leak *Leak) {
	leak.Loop = -1
	if leak.stack == 0 || leak.File == "" {
		return
	}
	const most = 16 // lines of a path
	lines := l.userLines(leak.stack)
	leak.Path = lines[:min(len(lines), most)]
	if leak.Defect || leak.Kind == StaleOutputs {
		leak.Loop = slices.IndexFunc(leak.Path, l.runsIn)
	}
	at := frames.Line{Function: leak.Function, File: leak.File, Line: leak.Line}
	if leak.Kind != RetainedGraph {
		if made := l.most(leak, at); made != at {
			leak.Made = made
		}
	}
	if leak.Kind != StaleOutputs { // what holds them is assigned again by the same line
		leak.CalledFrom = l.caller(leak.stack, at)
	}
}

// made is the innermost of the user's lines on a stack, or where that is the
// given one, a library's below it.
func (l *loop) made(stack snapshot.StackID, at frames.Line) frames.Line {
	if lines := l.userLines(stack); len(lines) > 0 && lines[0] != at {
		return lines[0]
	}
	return l.view.Site(stack).Line
}

// most is the line that made more than half of what a leak keeps; the given one
// where none did.
func (l *loop) most(leak *Leak, at frames.Line) frames.Line {
	there := map[frames.Line]int64{}
	var all int64
	for _, id := range leak.Allocations {
		all += l.bytes(id)
		there[l.made(l.t.Stack(id), at)] += l.bytes(id)
	}
	for line, bytes := range there {
		if 2*bytes > all {
			return line
		}
	}
	return at
}

// caller is the user's line that a line's function was called from: empty where
// a library called it, and gets what it returns, and where the module of a
// script called what all of the loop runs in.
func (l *loop) caller(stack snapshot.StackID, at frames.Line) frames.Line {
	passed := false
	for _, f := range l.t.Snapshot.Stack(stack) {
		line := l.view.Line(f)
		switch owner := l.view.Owner(f); {
		case line == at:
			passed = true
		case !passed || owner > frames.Library:
		case owner == frames.Library:
			return frames.Line{}
		case called[line.Function] || line.File == at.File && line.Line == at.Line: // a comprehension's own frame
		case line.Function == "<module>" && l.runsIn(at):
			return frames.Line{}
		default:
			return line
		}
	}
	return frames.Line{}
}

// runsIn reports whether all that the loop allocates comes from within a line's
// function: the loop stands in it then, or is what calls it.
func (l *loop) runsIn(at frames.Line) bool {
	seen := make([]bool, l.t.Snapshot.NumStacks())
	for id, step := range l.all() {
		stack := l.t.Stack(id)
		// half of those may belong to what surrounds the loop
		if edge := l.n > 3 && (step == 0 || step == l.n-1); edge || seen[stack] {
			continue
		}
		seen[stack] = true
		lines := l.userLines(stack)
		inside := len(lines) == 0 // of backward's thread
		for _, line := range lines {
			inside = inside || line.Function == at.Function && line.File == at.File
		}
		if !inside {
			return false
		}
	}
	return true
}

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
