package phases

import (
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// OptimizerInBackward tells optimizers that step for each weight as soon as its gradient is there.
var OptimizerInBackward = &Signal{
	ID: "optimizer-in-backward",
	Doc: `Several steps of optimizers in a row, between which what forward had saved goes on being freed, are part of a
backward pass. Between them hardly anything is made that lasts for a while. The last of them ends the iteration.`,
	Needs: []Need{Ranges},
	Find: func(f *facts) found {
		const (
			some  = 4 // gaps between steps in which something is freed
			few   = 3 // what one layer leaves: its gradients, and that of its input
			slack = 8 // what an operator may need for itself
		)
		var steps []int
		for i, w := range f.Windows {
			if w.phase == meaning.Optimizer && !w.closure {
				steps = append(steps, i)
			}
		}
		var x found
		for k := 0; k < len(steps); {
			gaps, old, young, j := 0, 0, 0, k+1
			for ; j < len(steps); j++ {
				o, y, left := between(f, &f.Windows[steps[j-1]], &f.Windows[steps[j]])
				if left > few || y > o+slack {
					break
				}
				gaps, old, young = gaps+AsInt(o > 0), old+o, young+y
			}
			if gaps >= some && old >= 2*young {
				if x.windows == nil {
					x.windows = slices.Clone(f.Windows)
				}
				fuse(x.windows, steps[k], steps[j-1])
			}
			k = j
		}
		return x
	},
}

// fuse makes all steps from one window to another part of a backward pass, and a zero_grad that follows at once. The last
// step ends an iteration.
func fuse(windows []window, first, last int) {
	const atOnce = 2 // events
	windows[last].ends = true
	for i := first; i < len(windows) && (i <= last || windows[i].first < windows[last].end+atOnce); i++ {
		w := &windows[i]
		w.fused = w.fused || w.phase == meaning.ZeroGrad || w.phase == meaning.Optimizer && i <= last
	}
}

// between counts what happens between two steps, in allocations: freed after a while, of those that were there before the
// first step and of those made since; and made since, and there when the second step begins.
func between(f *facts, w, next *window) (old, young, left int) {
	const while = 12 // events
	for i := w.end; i < next.first; i++ {
		id := f.Timeline.Of[i]
		switch {
		case id == timeline.NoAllocation || f.Covered[i] != 0:
		case f.Events.Action[i] == snapshot.Alloc && f.Freed(id) >= next.first:
			left++
		case f.Events.Action[i] != snapshot.FreeRequested || i-f.Born(id) < while:
		case f.Born(id) < w.first:
			old++
		default:
			young++
		}
	}
	return old, young, left
}
