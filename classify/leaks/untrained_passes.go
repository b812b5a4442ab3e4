package leaks

import (
	"slices"
	"sync"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

// maxUntrained bounds the stretches that are looked at: the next ones of a long
// program do the same.
const maxUntrained = 64

// untrainedLeaks are what forward passes leave behind that aren't trained on.
// What several stretches leave at one line, as each epoch's validation does, is
// one leak.
func untrainedLeaks(c *meaning.Result, view *frames.View) (all []Leak) {
	trained := sync.OnceValue(func() map[frames.Line]bool { return trainedThrough(c, view) })
	for _, steps := range c.Untrained[:min(len(c.Untrained), maxUntrained)] {
		l := loopOf(c, view, steps)
		l.trained = trained
		for _, leak := range (&growth{loop: l}).leftBehind() {
			i := slices.IndexFunc(all, func(x Leak) bool {
				return x.Kind == leak.Kind && x.File == leak.File &&
					x.Line == leak.Line
			})
			if i < 0 {
				all = append(all, leak)
				continue
			}
			kept := append(all[i].Allocations, leak.Allocations...) // later ones
			if leak.TotalBytes > all[i].TotalBytes {
				all[i] = leak
			}
			all[i].Allocations = kept
		}
	}
	return all
}

// leftBehind is what one stretch leaves behind: graphs that nobody needs, and what is
// collected from pass to pass, where that takes a good part of the memory and the
// recording ends before it is used.
func (l *growth) leftBehind() []Leak {
	const good = 10 // percent of the allocated peak
	atEnd := l.steps[l.n-1].LastEvent+1 == l.t.Device.Events.Len() || l.cut()
	leaks := slices.DeleteFunc(l.leaks(), func(leak Leak) bool {
		return leak.Kind == GrowingList && (!atEnd || leak.TotalBytes*100 < good*l.t.Peaks.Allocated.Bytes)
	})
	for i := range leaks {
		l.judge(&leaks[i])
		leaks[i].Untrained = true
	}
	return leaks
}

// call is the innermost of some lines that nearly all of what a stretch keeps was
// made under and that isn't trained through, too: no_grad goes around it.
func (l *loop) call(lines []frames.Line, p pace) frames.Line {
	const nearly = 90 // percent
	trained := l.trained()
	best := lines[0]
	for _, line := range lines {
		if called[line.Function] || l.under(line, p)*100 < nearly*p.bytes {
			continue
		}
		if best == lines[0] {
			best = line
		}
		if !trained[line] {
			return line
		}
	}
	return best
}

// trainedThrough are the user's lines on the stacks of all other forward passes.
func trainedThrough(c *meaning.Result, view *frames.View) map[frames.Line]bool {
	t := c.Timeline
	seen := make([]bool, t.Snapshot.NumStacks())
	lines := map[frames.Line]bool{}
	for i, phase := range c.Phase {
		stack := t.Stack(timeline.AllocationID(i))
		if phase != meaning.Forward || seen[stack] || c.UntrainedAt(int(t.Born[i])) != nil {
			continue
		}
		seen[stack] = true
		for _, line := range view.User(stack) {
			lines[line] = true
		}
	}
	return lines
}

// overlaps reports whether two leaks share most of what the smaller one keeps.
func (l *Leak) overlaps(other Leak) bool {
	mine := make(map[timeline.AllocationID]bool, len(l.Allocations))
	for _, id := range l.Allocations {
		mine[id] = true
	}
	both := 0
	for _, id := range other.Allocations {
		if mine[id] {
			both++
		}
	}
	return 2*both > min(len(l.Allocations), len(other.Allocations))
}
