package leaks

import (
	"slices"

	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
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
