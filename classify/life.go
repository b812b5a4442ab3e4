package classify

import (
	"sort"

	"github.com/vramscope/vramscope/timeline"
)

// lifeSignal judges by the phases in which an allocation was born and freed:
// what forward makes and backward frees was saved for it, what backward makes
// and the optimizer finds are gradients, what an optimizer makes and keeps is
// its state.
type lifeSignal struct{}

func (lifeSignal) name() Signal { return ByLife }
func (lifeSignal) hears() marks { return 0 }

func (lifeSignal) claim(a *analysis, id timeline.AllocationID) claim {
	b, f := a.born(id), a.freed(id)
	if b < 0 {
		return a.olderClaim(id)
	}
	end := a.run(f)
	switch a.Phase[id] {
	case Setup:
		return a.setupClaim(id, b, f)
	case Data:
		return a.dataClaim(id, end)
	case Forward, Generate:
		return a.forwardClaim(id, b, f)
	case Backward:
		return a.backwardClaim(id, b, f)
	case Optimizer:
		switch {
		case end == a.run(b) || end < int(a.nextOptimizer[a.run(b)]):
			return claim{Temporary, NoDetail, strong}
		case end < len(a.runs) && end == int(a.nextOptimizer[a.run(b)]): // replaced by every step
			if a.t.Requested(id) <= scalar {
				return claim{Temporary, NoDetail, plausible}
			}
			return claim{OptimizerState, NoDetail, plausible}
		case a.t.Requested(id) <= scalar:
			return claim{OptimizerState, StepCounter, plausible}
		}
		return claim{OptimizerState, NoDetail, strong}
	}
	return claim{Temporary, NoDetail, plausible}
}

func (a *analysis) setupClaim(id timeline.AllocationID, b, f int) claim {
	switch {
	case f >= a.last || a.phaseAt(f) != Setup:
		e := a.birth(id)
		if e.marks&userInner != 0 && e.marks&(weight|inModule) == 0 {
			if a.weightSize[a.t.Requested(id)] > 1 {
				return claim{Weights, NoDetail, plausible}
			}
			return claim{Inputs, NoDetail, plausible}
		}
		return claim{Weights, NoDetail, likely}
	case f-b > 64:
		return claim{Temporary, NoDetail, guess}
	}
	return claim{Temporary, NoDetail, strong}
}

func (a *analysis) dataClaim(id timeline.AllocationID, end int) claim {
	r := a.run(a.born(id))
	if end == r {
		return claim{Temporary, NoDetail, plausible}
	}
	return claim{Inputs, NoDetail, likely + 7}
}

// forwardClaim judges what forward makes.
func (a *analysis) forwardClaim(id timeline.AllocationID, b, f int) claim {
	r := a.run(b)
	pass := a.backwardAfter(r)
	small := a.t.Requested(id) <= scalar
	switch {
	case a.kept[id]:
		return claim{KVCache, NoDetail, plausible}
	case !a.trains && f >= a.last && !a.saves:
		return claim{Temporary, NoDetail, guess}
	case pass == nil || f < pass.first: // never saw a backward
		switch {
		case f >= a.last:
			return claim{Activations, NoDetail, guess - 10}
		case a.failedBetween(b, f):
			return claim{Activations, NoDetail, guess}
		case a.saves && !a.trains && a.inBulk[id]:
			return claim{Activations, NoDetail, likely}
		}
		return claim{Temporary, NoDetail, strong - 3}
	case f < a.last && a.phases[f] == Backward:
		if f < pass.end && pass.end-f < 3 && small {
			return claim{Temporary, NoDetail, guess}
		}
		if a.birth(id).marks&compiled != 0 && a.weightHalf[a.t.Requested(id)] {
			return claim{Activations, NoDetail, likely} // or a cast weight: compiled code doesn't say
		}
		return claim{Activations, NoDetail, strong - 3}
	case small:
		return claim{Temporary, NoDetail, likely}
	case !a.retained[r]:
		return claim{Temporary, NoDetail, guess}
	}
	return claim{Activations, NoDetail, guess}
}

// backwardClaim judges what backward makes.
func (a *analysis) backwardClaim(id timeline.AllocationID, b, f int) claim {
	r := a.run(b)
	end := a.runs[r].end
	switch {
	case a.stacks[a.t.Stack(id)].marks&rooted != 0:
		return claim{Temporary, NoDetail, strong}
	case f < end:
		if c, ok := a.recomputedClaim(id, f); ok {
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
	}
	return claim{Gradients, NoDetail, strong}
}

// failedBetween tells whether a request failed between two events: what the
// error unwinds was cut short.
func (a *analysis) failedBetween(b, f int) bool {
	i := sort.SearchInts(a.ooms, b+1)
	return i < len(a.ooms) && a.ooms[i] <= f
}
