package classify

import (
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var workOfFailedStep = &Rule{
	ID: "work-of-failed-step",
	Doc: `What an optimizer worked in when its request failed or the recording ended, and what so lives as long
as its state: told from state by the lines that make state, or by being more than two for each weight.`,
	Signal: ByLife,
	Born:   bornIn(Optimizer),
	Needs:  []Need{Lives, Sizes},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		spare := findSpare(a)
		if len(spare) == 0 {
			return nil
		}
		return func(id timeline.AllocationID) claim {
			if !spare[id] {
				return claim{}
			}
			return as(Temporary, likely)
		}
	},
}

// stepsUntil is the run in which an allocation of an optimizer goes, that in which it
// was made, and that of the next step.
func stepsUntil(a *analysis, id timeline.AllocationID) (gone, made, next int) {
	made = a.run(a.born(id))
	return a.run(a.freed(id)), made, int(a.nextOptimizer[made])
}

var copyBeforeStep = &Rule{
	ID: "gradient-copy-before-step",
	Doc: `Made in an optimizer's step, without stacks, as large as a weight and gone before the next step: the
program's own copy of a gradient, by guess.`,
	Signal: ByLife,
	Born:   bornIn(Optimizer),
	Needs:  []Need{NoStacks, Lives, Sizes},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			gone, made, next := stepsUntil(a, id)
			if gone == made || gone >= next || !weightSized(a, id) {
				return claim{}
			}
			return as(Gradients, guess)
		}
	},
}

var temporaryInStep = &Rule{
	ID:     "temporary-in-step",
	Doc:    `Made in an optimizer's step and gone before the next one.`,
	Signal: ByLife,
	Born:   bornIn(Optimizer),
	Needs:  []Need{Lives},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			if gone, made, next := stepsUntil(a, id); gone != made && gone >= next {
				return claim{}
			}
			return as(Temporary, strong)
		}
	},
}

var replacedByNextStep = &Rule{
	ID: "replaced-by-next-step",
	Doc: `Made in an optimizer's step and freed in the next one, which puts another in its place: state that is
made anew in each step; scalars are temporary.`,
	Signal: ByLife,
	Born:   bornIn(Optimizer),
	Needs:  []Need{Lives},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			gone, _, next := stepsUntil(a, id)
			switch {
			case gone >= len(a.runs) || gone != next:
				return claim{}
			case a.t.Requested(id) <= scalar:
				return as(Temporary, plausible)
			}
			return as(OptimizerState, plausible)
		}
	},
}

var stateByLife = &Rule{
	ID: "optimizer-state",
	Doc: `Made in an optimizer's step and kept: its state, usually made in the first step. Scalars are step
counters. Less sure without stacks where the step failed, or where it was made outside of every step that the
recording names.`,
	Signal: ByLife,
	Born:   bornIn(Optimizer),
	Needs:  []Need{Lives},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			b := a.born(id)
			switch {
			case a.t.Requested(id) <= scalar:
				return kindOf(OptimizerState, StepCounter, plausible)
			case a.recorded.allocs:
			case len(a.windows) > 0 && a.covered[b] == 0: // made outside of all steps that are named
				return as(OptimizerState, guess)
			case a.failedBetween(b, a.runs[a.run(b)].end): // or what the step that failed worked in
				return as(OptimizerState, plausible)
			}
			return as(OptimizerState, strong)
		}
	},
}

// findSpare sees what an optimizer worked in when a request of its failed or the
// recording ended, and what so lives as long as its state: by the lines that make
// state, else, after a failure, what is more than two for each weight.
func findSpare(a *analysis) map[timeline.AllocationID]bool {
	failed := a.last
	if n := len(a.ooms); n > 0 && a.phases[a.ooms[n-1]] == Optimizer {
		failed = a.ooms[n-1]
	} else if a.last == 0 || !a.recorded.allocs || a.phases[a.last-1] != Optimizer {
		return nil
	}
	first := a.runs[a.run(min(failed, a.last-1))].first
	made := map[int64]int{} // by size, that stay
	var marked bool
	var working, more []timeline.AllocationID
	for i := range a.Category {
		id := timeline.AllocationID(i)
		b := a.born(id)
		if b < 0 || b >= failed || a.Phase[id] != Optimizer || a.freed(id) < failed {
			continue
		}
		n := a.t.Requested(id)
		if made[n]++; b >= first && n > scalar && made[n] > 2*a.weightSize[n] && a.weightSize[n] > 0 {
			more = append(more, id)
		}
		if a.birth(id).Marks&frames.State != 0 {
			marked = true
		} else if b >= first {
			working = append(working, id)
		}
	}
	if a.recorded.allocs {
		more = nil
		if marked {
			more = working
		}
	}
	spare := map[timeline.AllocationID]bool{}
	for _, id := range more {
		spare[id] = true
	}
	return spare
}
