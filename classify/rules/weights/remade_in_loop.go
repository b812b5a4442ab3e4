package weights

import (
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

var RemadeInLoop = &rules.Rule{
	ID: "remade-in-loop",
	Doc: `Made in the program's loop where no module shows it, there after two of an optimizer's steps, and
gradients come in its size: a weight that is made anew; or state, where it takes the place of earlier state at once.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Setup, meaning.Data, meaning.Forward, meaning.Generate, meaning.ZeroGrad, meaning.OtherPhase),
	Needs:  []rules.Need{rules.Retention},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		again := findRemade(a)
		if again == nil {
			return nil
		}
		retains := rules.Retention.Of(a).Retains
		return func(id timeline.AllocationID) rules.Claim {
			switch a.Phase[id] {
			case meaning.Setup:
				if !outlivesSetup(a, id) || !madeByProgram(a, id) {
					return rules.Claim{}
				}
			case meaning.Forward, meaning.Generate:
				if retains {
					return rules.Claim{}
				}
			}
			return again.claim(id, a.Run(a.Born(id)))
		}
	},
}

// remade tells weights and state that are made anew in the loop.
type remade struct {
	*rules.Facts
	gradientIn map[int64][]int32 // runs that leave gradients of a size, in order
	nextStep   []int32           // by run: the first step at or after it, or backward pass where steps make nothing
}

// findRemade prepares it where no module shows such weights: in recordings without
// stacks, and in programs that have no modules. Else it is nil.
func findRemade(a *rules.Facts) *remade {
	if a.Recorded.Allocs && a.All&frames.InModule != 0 || len(a.Runs) == 0 {
		return nil
	}
	gradientIn := map[int64][]int32{}
	for i := range a.Category {
		id := timeline.AllocationID(i)
		if a.Phase[id] != meaning.Backward || a.Born(id) < 0 || !rules.OutlivesPass(a, id) {
			continue
		}
		n, r := a.Timeline.Requested(id), a.RunOf[a.Born(id)]
		if in := gradientIn[n]; len(in) == 0 || in[len(in)-1] != r {
			gradientIn[n] = append(in, r)
		}
	}
	var of [meaning.NumPhases]int
	for _, r := range a.Runs {
		of[r.Phase]++
	}
	if of[meaning.Optimizer]*2 < of[meaning.Backward] { // steps that make nothing
		return &remade{a, gradientIn, a.NextBackward}
	}
	return &remade{a, gradientIn, a.NextOptimizer}
}

// claim judges weights and state that are made anew in the loop: a block is
// there after two of an optimizer's steps, and gradients come in its size. State
// takes the place of earlier state at once.
func (a *remade) claim(id timeline.AllocationID, r int) rules.Claim {
	const large = 1 << 16 // bytes
	n := a.Timeline.Requested(id)
	if n < large {
		return rules.Claim{}
	}
	after := r // the second step
	for range 2 {
		if after = int(a.nextStep[after]) + 1; after >= len(a.Runs) {
			return rules.Claim{}
		}
	}
	if _, found := slices.BinarySearch(a.gradientIn[n], a.NextBackward[r]); !found || a.Freed(id) < a.Runs[after].First {
		return rules.Claim{}
	}
	if a.takesPlace(id, r) {
		return rules.As(meaning.OptimizerState, rules.Plausible)
	}
	return rules.As(meaning.Weights, rules.Plausible)
}

// takesPlace reports whether an allocation has hardly been made when one of about
// its size goes that was there in a step before.
//
//worth:off false
func (a *remade) takesPlace(id timeline.AllocationID, r int) bool {
	n := a.Timeline.Requested(id)
	for i := a.Born(id) + 1; i < a.Last && a.Events.Action[i] != snapshot.Alloc; i++ {
		if a.Events.Action[i] != snapshot.FreeRequested || a.Timeline.Of[i] == timeline.NoAllocation {
			continue
		}
		old := a.Timeline.Of[i]
		m, b := a.Timeline.Requested(old), a.Born(old)
		if step := int(a.nextStep[max(a.Run(b), 0)]); step < r && m*4 >= n && n*4 >= m {
			return true
		}
	}
	return false
}
