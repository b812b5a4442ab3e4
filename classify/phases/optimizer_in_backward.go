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
				r := between(f, &f.Windows[steps[j-1]], &f.Windows[steps[j]])
				if r.left > few || r.young > r.old+slack {
					break
				}
				gaps, old, young = gaps+AsInt(r.old > 0), old+r.old, young+r.young
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

// rest is what happens between two steps, in allocations.
type rest struct {
	old, young int // freed after a while: were there before the first step, were made since
	left       int // made since, and there when the second step begins
}

func between(f *facts, w, next *window) (r rest) {
	const while = 12 // events
	for i := w.end; i < next.first; i++ {
		id := f.Timeline.Of[i]
		switch {
		case id == timeline.NoAllocation || f.Covered[i] != 0:
		case f.Events.Action[i] == snapshot.Alloc && f.Freed(id) >= next.first:
			r.left++
		case f.Events.Action[i] != snapshot.FreeRequested || i-f.Born(id) < while:
		case f.Born(id) < w.first:
			r.old++
		default:
			r.young++
		}
	}
	return r
}
