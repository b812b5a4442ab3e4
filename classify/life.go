package classify

import (
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// lifeClaim judges by the phases in which an allocation was born and freed:
// what forward makes and backward frees was saved for it, what backward makes
// and the optimizer finds are gradients, what an optimizer makes and keeps is
// its state.
func lifeClaim(a *analysis, id timeline.AllocationID) claim {
	if c, ok := a.replaced.get(id); ok {
		return c
	}
	b, f := a.born(id), a.freed(id)
	if b < 0 {
		return olderClaim(a, id)
	}
	if len(a.twins) > 0 && a.twins[id] && !a.kept[id] {
		if !a.recorded.native { // or sums of what the program makes of each weight, which begin as zeros
			return claim{Weights, NoDetail, plausible - 5}
		}
		return claim{Weights, NoDetail, likely}
	}
	if len(a.packed) > 0 && a.packed[id] && a.Phase[id] == Setup {
		return claim{Weights, NoDetail, likely}
	}
	end := a.run(f)
	switch a.Phase[id] {
	case Setup:
		return setupClaim(a, id, b, f)
	case Data:
		return dataClaim(a, id, end)
	case Forward, Generate:
		return orScores(a, id, forwardClaim(a, id, b, f))
	case Backward:
		return orScores(a, id, backwardClaim(a, id, b, f))
	case Optimizer:
		switch {
		case len(a.spare) > 0 && a.spare[id]:
			return claim{Temporary, NoDetail, likely}
		case end != a.run(b) && end < int(a.nextOptimizer[a.run(b)]) && !a.recorded.allocs && weightSized(a, id):
			return claim{Gradients, NoDetail, guess} // the program's copy of one, made before the optimizer's own work
		case end == a.run(b) || end < int(a.nextOptimizer[a.run(b)]):
			return claim{Temporary, NoDetail, strong}
		case end < len(a.runs) && end == int(a.nextOptimizer[a.run(b)]): // replaced by every step
			if a.t.Requested(id) <= scalar {
				return claim{Temporary, NoDetail, plausible}
			}
			return claim{OptimizerState, NoDetail, plausible}
		case a.t.Requested(id) <= scalar:
			return claim{OptimizerState, StepCounter, plausible}
		case !a.recorded.allocs && len(a.windows) > 0 && a.covered[b] == 0: // made outside of all steps that are named
			return claim{OptimizerState, NoDetail, guess}
		case !a.recorded.allocs && a.failedBetween(b, a.runs[a.run(b)].end): // or what the step that failed worked in
			return claim{OptimizerState, NoDetail, plausible}
		}
		return claim{OptimizerState, NoDetail, strong}
	}
	if copiedGradient(a, id, b, f) {
		return claim{Gradients, NoDetail, plausible}
	}
	if c, ok := remadeClaim(a, id, a.run(b)); ok {
		return c
	}
	switch {
	case a.plain && a.outlives(id) && a.birth(id).Marks&frames.UserInner != 0:
		return claim{Inputs, NoDetail, guess} // or what the program makes of them
	case a.outlives(id) && weightSized(a, id):
		return claim{Temporary, NoDetail, guess} // or a copy of a weight
	}
	return claim{Temporary, NoDetail, plausible}
}

// orScores is less sure of what may be scores.
func orScores(a *analysis, id timeline.AllocationID, c claim) claim {
	if _, ok := a.doubtful[id]; ok {
		c.sure = min(c.sure, guess)
	} else if len(a.widest) > 0 && a.widest[id] {
		c.sure = min(c.sure, plausible)
	}
	return c
}

func setupClaim(a *analysis, id timeline.AllocationID, b, f int) claim {
	switch {
	case a.kept[id]:
		return claim{KVCache, NoDetail, plausible}
	case a.resumed[id] != NoDetail:
		return claim{OptimizerState, a.resumed[id], likely}
	case f >= a.last || a.phaseAt(f) != Setup:
		e := a.birth(id)
		if e.Marks&frames.UserInner != 0 && e.Marks&(frames.Weight|frames.InModule) == 0 {
			switch n := a.t.Requested(id); {
			// else a pair of tables
			case a.weightSize[n] > 1 && (len(a.stateSize) == 0 || a.stateSize[n] || e.Marks&frames.Named != 0):
				return claim{Weights, NoDetail, plausible}
			case n > scalar && a.stateSize[n]: // an optimizer trains it
				return claim{Weights, NoDetail, likely}
			case e.Marks&frames.Named != 0:
				return claim{Weights, NoDetail, guess}
			}
			if c, ok := remadeClaim(a, id, a.run(b)); ok {
				return c
			}
			return claim{Inputs, NoDetail, plausible}
		}
		if a.recorded.allocs && e.Marks&(frames.Weight|frames.InModule) == 0 {
			return claim{Weights, NoDetail, plausible} // nothing in its stack builds or moves a module
		}
		if len(a.guessed) > 0 && a.guessed[id] {
			return claim{Weights, NoDetail, guess}
		}
		return claim{Weights, NoDetail, likely}
	case a.unpacked[id] || f-b > 16 && a.castAway(id):
		return claim{Weights, NoDetail, plausible}
	case f-b > 64:
		return claim{Temporary, NoDetail, guess}
	}
	return claim{Temporary, NoDetail, strong}
}

func dataClaim(a *analysis, id timeline.AllocationID, end int) claim {
	r := a.run(a.born(id))
	if a.kept[id] {
		return claim{KVCache, NoDetail, plausible}
	}
	if end == r {
		return claim{Temporary, NoDetail, plausible}
	}
	if !a.recorded.allocs && weightSized(a, id) { // or what a program makes of its weights' gradients
		if copiedGradient(a, id, a.born(id), a.freed(id)) {
			return claim{Gradients, NoDetail, guess}
		}
		return claim{Inputs, NoDetail, guess}
	}
	if c, ok := remadeClaim(a, id, r); ok {
		return c
	}
	if !a.recorded.allocs { // or the first that forward keeps
		return claim{Inputs, NoDetail, likely}
	}
	if a.t.Older() > 0 { // or what is kept of a step, in a recording that begins in the middle of one
		return claim{Inputs, NoDetail, plausible}
	}
	return claim{Inputs, NoDetail, likely + 7}
}

// forwardClaim judges what forward makes.
func forwardClaim(a *analysis, id timeline.AllocationID, b, f int) claim {
	r := a.run(b)
	pass := a.backwardAfter(r)
	small := a.t.Requested(id) <= scalar
	switch {
	case a.kept[id]:
		return claim{KVCache, NoDetail, plausible}
	case a.birth(id).Marks&frames.Mask != 0 && (f >= a.last || a.failedBetween(b, f)):
		return claim{Temporary, NoDetail, guess}
	case !a.trains && f >= a.last && !a.saves:
		return claim{Temporary, NoDetail, guess}
	case pass == nil || f < pass.first: // never saw a backward
		switch {
		case a.trains && a.inBulk[id]:
			return claim{Activations, NoDetail, likely}
		case f >= a.last && a.UntrainedAt(b) != nil: // collected, in passes that keep no graph
			return claim{Temporary, NoDetail, guess}
		case f >= a.last:
			return claim{Activations, NoDetail, guess - 10}
		case a.failedBetween(b, f) && a.saves && a.inBulk[id]: // but for what the request that failed was made with
			return claim{Activations, NoDetail, plausible}
		case a.failedBetween(b, f) && a.Phase[id] != Generate:
			return claim{Activations, NoDetail, guess}
		case a.saves && !a.trains && a.inBulk[id]:
			return claim{Activations, NoDetail, likely}
		case !a.recorded.allocs && f-b > 64 && weightSized(a, id):
			return claim{Temporary, NoDetail, guess} // or a copy of a gradient, of an optimizer that nothing shows
		case !a.trains && a.updates && f-b > 16:
			return claim{Activations, NoDetail, guess} // something is trained, by a backward pass that wasn't seen
		case !a.trains && !a.recorded.allocs && spansStep(a, id, f-b):
			return claim{Temporary, NoDetail, plausible} // or a batch, which goes when the next one is there
		case f > a.untrainedEnd(b):
			return claim{Temporary, NoDetail, plausible} // collected, whatever it is
		case !a.trains && f >= a.stop && (a.stop-b)*4 > a.stop:
			return claim{Temporary, NoDetail, guess} // there for a good part of the program: weights, or a graph
		}
		return claim{Temporary, NoDetail, strong - 3}
	case f < a.last && a.phases[f] == Backward:
		if f < pass.end && pass.end-f < 3 && small {
			return claim{Temporary, NoDetail, guess}
		}
		if a.birth(id).Marks&frames.Inductor != 0 && a.weightHalf[a.t.Requested(id)] {
			return claim{Activations, NoDetail, likely} // or a cast weight: compiled code doesn't say
		}
		return claim{Activations, NoDetail, strong - 3}
	case small:
		return claim{Temporary, NoDetail, likely}
	case !a.retains:
		if c, ok := remadeClaim(a, id, r); ok {
			return c
		}
	}
	if !isCut(a, pass) && !a.retained[r] && !heldByModule(a, id, f) {
		return claim{Temporary, NoDetail, guess}
	}
	return claim{Activations, NoDetail, guess}
}

// heldByModule tells whether something that outlives its backward pass was made
// by a layer, and goes when that layer makes it again: an attribute or a hook
// holds it, and what follows in the model has saved it, most likely.
func heldByModule(a *analysis, id timeline.AllocationID, f int) bool {
	if n := int(a.Step[id]); a.birth(id).depth < 2 || n < 0 || n+1 >= len(a.Steps) || f > a.Steps[n+1].LastEvent {
		return false
	}
	b := a.born(id)
	r := a.runs[a.run(b)]
	made, all := (b-r.first)*20, r.end-r.first
	return made > all && made < all*18 // the first ones are masks and tables, the last what the model returns
}

// spansStep tells whether a number of events is a good part of the step in which
// an allocation was made.
func spansStep(a *analysis, id timeline.AllocationID, events int) bool {
	n := a.Step[id]
	return n >= 0 && events*3 > a.Steps[n].LastEvent-a.Steps[n].FirstEvent
}

// backwardClaim judges what backward makes.
func backwardClaim(a *analysis, id timeline.AllocationID, b, f int) claim {
	r := a.run(b)
	end := a.runs[r].end
	switch {
	case a.stacks[a.t.Stack(id)].Marks&frames.Rooted != 0:
		return claim{Temporary, NoDetail, strong}
	case f-b <= 2: // at once, though nothing says that this still is backward
		return claim{Temporary, NoDetail, strong - 3}
	case f < end && a.isFused(f) && a.covered[f] == hintOf(ZeroGrad):
		return claim{Gradients, NoDetail, strong}
	case f < end:
		if c, ok := recomputedClaim(a, id, f); ok {
			return c
		}
		return claim{Temporary, NoDetail, strong - 3}
	case f >= a.last && end >= a.last: // the recording ends inside this pass
		if a.weightSize[a.t.Requested(id)] > 0 {
			return claim{Gradients, NoDetail, plausible}
		}
		return claim{Temporary, NoDetail, guess}
	case a.t.Requested(id) <= scalar && len(a.roots) > 0:
		return claim{Temporary, NoDetail, plausible}
	case a.weightSize[a.t.Requested(id)] == 0 && f < a.last && a.phases[f] == Backward:
		// No gradient of a weight, and gone in another pass: what a gradient's own
		// gradient needs (create_graph).
		return claim{Activations, NoDetail, likely}
	case !a.recorded.allocs && !likeWeight(a, id): // or forward's, where nothing shows the beginning of the pass
		return claim{Gradients, NoDetail, plausible}
	}
	return claim{Gradients, NoDetail, strong}
}

// copiedGradient tells whether something as large as a weight is made right
// after backward and stays until an optimizer has used it: programs that keep
// their own copies of the weights copy gradients, too.
func copiedGradient(a *analysis, id timeline.AllocationID, b, f int) bool {
	r := a.run(b)
	next := int(a.nextOptimizer[r])
	if !weightSized(a, id) || r == 0 || a.runs[r-1].phase != Backward || next == len(a.runs) || f < a.runs[next].first {
		return false
	}
	if int(a.nextBackward[r]) > next {
		return true
	}
	// Another backward follows: a copy to add to, if what it was made from goes next.
	const soon = 16 // events
	for i := b + 1; i < min(b+soon, a.last) && a.events.Action[i] != snapshot.Alloc; i++ {
		if a.events.Action[i] == snapshot.FreeRequested && a.t.Of[i] != timeline.NoAllocation {
			from, n := a.t.Of[i], a.t.Requested(id)
			return a.run(a.born(from)) == r-1 && (a.t.Requested(from) == n || a.t.Requested(from)*2 == n)
		}
	}
	return false
}

// weightSized tells whether an allocation is as large as a weight, and larger
// than what has a weight's size by chance.
func weightSized(a *analysis, id timeline.AllocationID) bool {
	const large = 1 << 16 // bytes
	n := a.t.Requested(id)
	return n >= large && a.weightSize[n] > 0
}

// likeWeight tells whether an allocation is as large as a weight, in this precision
// or another, as far as all weights are known.
func likeWeight(a *analysis, id timeline.AllocationID) bool {
	n := a.t.Requested(id)
	return a.t.Older() > 0 || n <= scalar || a.weightSize[n] > 0 || a.weightSize[n/2] > 0 || a.weightHalf[n]
}

// isCut tells whether a backward pass was cut off, by a failure or where the
// recording ends: it hasn't come to what was saved first.
func isCut(a *analysis, pass *run) bool {
	return pass.end >= a.last || a.failedBetween(pass.first-1, pass.end)
}
