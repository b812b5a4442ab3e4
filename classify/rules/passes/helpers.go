// Package passes tells what forward and backward passes and the loading of batches make,
// by the phases in which an allocation is made and freed.
//
// A rule goes into a file named after its ID, and into classify's registry, where those
// of one phase are asked from the most special one to the most general.
package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// byLifeAlone is how sure a life is that only one thing has, where no frame says so.
const byLifeAlone = rules.Strong - 3

// beforeBackward is true of what goes, if at all, before a backward pass could see it.
func beforeBackward(a *rules.Facts, id timeline.AllocationID) bool {
	if !a.Trains {
		return true
	}
	pass := a.BackwardAfter(a.Run(a.Born(id)))
	return pass == nil || a.Freed(id) < pass.First
}

// copiesGradient is true of something as large as a weight that is made right after a
// backward pass and stays until an optimizer has used it.
func copiesGradient(a *rules.Facts, id timeline.AllocationID) bool {
	b, f := a.Born(id), a.Freed(id)
	r := a.Run(b)
	next := int(a.NextOptimizer[r])
	if !rules.WeightSized(a, id) || r == 0 || a.Runs[r-1].Phase != meaning.Backward || next == len(a.Runs) ||
		f < a.Runs[next].First {
		return false
	}
	if int(a.NextBackward[r]) > next {
		return true
	}
	// Another backward follows: a copy to add to, if what it was made from goes next.
	const soon = 16 // events
	for i := b + 1; i < min(b+soon, a.Last) && a.Events.Action[i] != snapshot.Alloc; i++ {
		if a.Events.Action[i] == snapshot.FreeRequested && a.Timeline.Of[i] != timeline.NoAllocation {
			from, n := a.Timeline.Of[i], a.Timeline.Requested(id)
			return a.Run(a.Born(from)) == r-1 && (a.Timeline.Requested(from) == n || a.Timeline.Requested(from)*2 == n)
		}
	}
	return false
}
