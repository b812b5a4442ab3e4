package classify

import (
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// releases tells whether autograd is ever seen letting go of a saved tensor.
func (a *analysis) releases() bool {
	if a.all&release == 0 {
		return false
	}
	for i := range a.Category {
		if a.death(timeline.AllocationID(i)).marks&release != 0 {
			return true
		}
	}
	return false
}

// findRetained sees which forward runs keep their graph: a good part of what they
// made is still there after the next backward. What a program merely keeps of
// them is little beside what that backward frees.
func (a *analysis) findRetained() {
	released, stayed := make([]int, len(a.runs)), make([]int, len(a.runs))
	for i := range a.Category {
		id := timeline.AllocationID(i)
		b := a.born(id)
		if a.Phase[i] != Forward || b < 0 || a.t.Requested(id) <= scalar {
			continue
		}
		p := a.backwardAfter(a.run(b))
		switch f := a.freed(id); {
		case p == nil || f < p.first:
		case f < p.end:
			released[a.run(b)]++
		default:
			stayed[a.run(b)]++
		}
	}
	a.retained = make([]bool, len(a.runs))
	for r := range a.retained {
		a.retained[r] = stayed[r]*4 >= released[r]
	}
}

// findSaved sees, in programs without a backward pass, whether forward keeps
// what one would need: under no_grad nearly everything is freed on the way,
// else it piles up and goes in one bulk when the output is dropped.
func (a *analysis) findSaved() {
	a.inBulk, a.copies = make([]bool, len(a.Category)), make([]bool, len(a.Category))
	if a.trains {
		return
	}
	const bulk = 16 // frees without an allocation in between
	var together []timeline.AllocationID
	bulks := 0
	flush := func() {
		switch {
		case len(together) < bulk:
		case a.areCasts(together):
			for _, id := range together {
				a.copies[id] = a.weightHalf[a.t.Requested(id)]
			}
		default:
			for _, id := range together {
				a.inBulk[id] = true
			}
			bulks += len(together)
		}
		together = together[:0]
	}
	for i := a.loop; i < a.last; i++ {
		switch a.events.Action[i] {
		case snapshot.Alloc:
			flush()
		case snapshot.FreeRequested:
			if id := a.t.Of[i]; id != timeline.NoAllocation && a.born(id) >= a.loop {
				together = append(together, id)
			}
		}
	}
	flush()
	kept, all := bulks, 0
	for i := range a.Category {
		id := timeline.AllocationID(i)
		if p := a.Phase[i]; p != Forward || a.born(id) < 0 || a.birth(id).marks&workspace != 0 {
			continue
		}
		all++
		if a.outlives(id) {
			kept++
		}
	}
	a.saves = kept >= bulk && kept*4 >= all
	if a.recorded.native && a.recorded.frees {
		a.saves = a.saves || a.releases()
	}
}

// areCasts tells whether what goes together is what autocast lets go of when it
// is left: nearly all of it half as large as a weight, and no more of a size
// than there are such weights. Under no_grad, too, weights are cast once a pass.
func (a *analysis) areCasts(together []timeline.AllocationID) bool {
	of := map[int64]int{}
	casts := 0
	for _, id := range together {
		n := a.t.Requested(id)
		if of[n]++; a.weightHalf[n] && of[n] <= a.weightSize[2*n] {
			casts++
		}
	}
	return casts*10 >= len(together)*9
}
