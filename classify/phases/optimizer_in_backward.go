package phases

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// findFused finds optimizers that step inside the backward pass, for each weight
// as soon as its gradient is there: between their steps what forward had saved
// goes on being freed, and hardly anything is made that lasts for a while.
func (a *Program) findFused() {
	const (
		some  = 4 // gaps between steps in which something is freed
		few   = 3 // what one layer leaves: its gradients, and that of its input
		slack = 8 // what an operator may need for itself
	)
	var steps []int
	for i := range a.Windows {
		if w := &a.Windows[i]; w.phase == meaning.Optimizer && !w.closure {
			steps = append(steps, i)
		}
	}
	for k := 0; k < len(steps); {
		gaps, old, young, j := 0, 0, 0, k+1
		for ; j < len(steps); j++ {
			g := a.between(&a.Windows[steps[j-1]], &a.Windows[steps[j]])
			if g.left > few || g.young > g.old+slack {
				break
			}
			if g.old > 0 {
				gaps++
			}
			old, young = old+g.old, young+g.young
		}
		if gaps >= some && old >= 2*young {
			a.fuse(steps[k], steps[j-1])
		}
		k = j
	}
}

// fuse makes all steps from one window to another part of a backward pass, and
// a zero_grad that follows at once. The last step ends an iteration.
func (a *Program) fuse(first, last int) {
	const atOnce = 2 // events
	if a.fused == nil {
		a.fused = pages.Make[bool](a.Last)
	}
	a.Windows[last].ends = true
	done := 0 // windows may overlap: each event once
	for i := first; i < len(a.Windows) && (i <= last || a.Windows[i].first < a.Windows[last].end+atOnce); i++ {
		w := &a.Windows[i]
		if w.phase != meaning.ZeroGrad && (w.phase != meaning.Optimizer || i > last) {
			continue
		}
		w.fused = true
		for k := max(w.first, done); k < w.end; k++ {
			a.fused[k] = true
		}
		done = max(done, w.end)
	}
}

// IsFused reports whether an event is part of a step within a backward pass.
func (a *Program) IsFused(event int) bool {
	return a.fused != nil && event >= 0 && event < a.Last && a.fused[event]
}

// gap is what happens between two steps, in allocations.
type gap struct {
	old, young int // freed after a while: were there before the first step, were made since
	left       int // made since, and there when the second step begins
}

func (a *Program) between(w, next *window) (g gap) {
	const while = 12 // events
	for i := w.end; i < next.first; i++ {
		id := a.Timeline.Of[i]
		switch {
		case id == timeline.NoAllocation || a.Covered[i] != 0:
		case a.Events.Action[i] == snapshot.Alloc && a.Freed(id) >= next.first:
			g.left++
		case a.Events.Action[i] != snapshot.FreeRequested || i-a.Born(id) < while:
		case a.Born(id) < w.first:
			g.old++
		default:
			g.young++
		}
	}
	return g
}
