package classify

import (
	"slices"

	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// tellFailedLoss cuts the backward pass off a forward pass where the second request
// of the former failed, without stacks. It is too short to be seen by its rhythm, and
// what forward kept is told by what is freed later: so only phases change, once all
// else is known.
func tellFailedLoss(a *analysis) {
	if a.recorded.allocs || len(a.ooms) == 0 || len(a.Steps) == 0 {
		return
	}
	failed := a.ooms[len(a.ooms)-1]
	root, of, ok := gradientOfScores(a, failed)
	s := &a.Steps[len(a.Steps)-1]
	k := slices.IndexFunc(s.Phases, func(p PhaseSpan) bool { return p.FirstEvent <= failed && failed <= p.LastEvent })
	if !ok || k < 0 || s.Phases[k].Phase != Forward || s.Phases[k].FirstEvent >= root {
		return
	}
	p := s.Phases[k]
	over := min(a.freed(a.t.Of[root])-1, p.LastEvent)
	cut := []PhaseSpan{{Forward, p.FirstEvent, root - 1}, {Backward, root, over}}
	if over < p.LastEvent {
		cut = append(cut, PhaseSpan{OtherPhase, over + 1, p.LastEvent}) // an error is no pass
	}
	s.Phases = slices.Replace(s.Phases, k, k+1, cut...)
	for i := root; i <= over; i++ {
		if a.events.Action[i] == snapshot.Alloc {
			a.Phase[a.t.Of[i]] = Backward
		}
	}
	if a.Category[of] == Logits {
		a.Detail[of] = LogitsGradient
	}
}

// gradientOfScores tells whether a request fails as the second one of a backward
// pass: the loss makes one number and the weight of all targets, backward one more,
// at event root, and then a gradient as large as the log-softmax, which is of, from
// which comes another. Before a forward pass is over nobody makes three numbers and
// then as much as they are of.
func gradientOfScores(a *analysis, failed int) (root int, of timeline.AllocationID, ok bool) {
	const large, few = 1 << 20, 4 // bytes; allocations between the first gradient and the failure
	size := a.events.Size[failed]
	if size < large {
		return 0, 0, false
	}
	var before []int // events that allocate, the last first
	for i := failed - 1; i >= 0 && len(before) < few+4; i-- {
		if a.events.Action[i] == snapshot.Alloc {
			before = append(before, i)
		}
	}
	number := func(k int) bool {
		id := a.t.Of[before[k]]
		return a.t.Requested(id) <= scalar && a.freed(id) > before[0]
	}
	there := func(id timeline.AllocationID) bool { return family(a.t.Requested(id), size) && a.freed(id) >= failed }
	for k := 1; k+3 < len(before); k++ {
		of := a.t.Of[before[k-1]]
		if number(k) && number(k+1) && number(k+2) && there(a.t.Of[before[k+3]]) && there(of) &&
			a.freed(a.t.Of[before[k]]) > failed {
			return before[k], of, true
		}
	}
	return 0, 0, false
}
