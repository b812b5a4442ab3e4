package optimizer

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var WorkOfFailedStep = &rules.Rule{
	ID: "work-of-failed-step",
	Doc: `What an optimizer worked in when its request failed or the recording ended, and what so lives as long
as its state: told from state by the lines that make state, or by being more than two for each weight.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Optimizer),
	Needs:  []rules.Need{rules.Lives, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		spare := findSpare(a)
		if len(spare) == 0 {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			if !spare[id] {
				return rules.Claim{}
			}
			return rules.As(meaning.Temporary, rules.Likely)
		}
	},
}

// stepsUntil is the run in which an allocation of an optimizer goes, that in which it
// was made, and that of the next step.
func stepsUntil(a *rules.Facts, id timeline.AllocationID) (gone, made, next int) {
	made = a.Run(a.Born(id))
	return a.Run(a.Freed(id)), made, int(a.NextOptimizer[made])
}

var CopyBeforeStep = &rules.Rule{
	ID: "gradient-copy-before-step",
	Doc: `Made in an optimizer's step, without stacks, as large as a weight and gone before the next step: the
program's own copy of a gradient, by guess.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Optimizer),
	Needs:  []rules.Need{rules.NoStacks, rules.Lives, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			gone, made, next := stepsUntil(a, id)
			if gone == made || gone >= next || !rules.WeightSized(a, id) {
				return rules.Claim{}
			}
			return rules.As(meaning.Gradients, rules.Guess)
		}
	},
}

var TemporaryInStep = &rules.Rule{
	ID:     "temporary-in-step",
	Doc:    `Made in an optimizer's step and gone before the next one.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Optimizer),
	Needs:  []rules.Need{rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if gone, made, next := stepsUntil(a, id); gone != made && gone >= next {
				return rules.Claim{}
			}
			return rules.As(meaning.Temporary, rules.Strong)
		}
	},
}

var ReplacedByNextStep = &rules.Rule{
	ID: "replaced-by-next-step",
	Doc: `Made in an optimizer's step and freed in the next one, which puts another in its place: state that is
made anew in each step; scalars are temporary.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Optimizer),
	Needs:  []rules.Need{rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			gone, _, next := stepsUntil(a, id)
			switch {
			case gone >= len(a.Runs) || gone != next:
				return rules.Claim{}
			case a.Timeline.Requested(id) <= phases.Scalar:
				return rules.As(meaning.Temporary, rules.Plausible)
			}
			return rules.As(meaning.OptimizerState, rules.Plausible)
		}
	},
}

var StateByLife = &rules.Rule{
	ID: "optimizer-state",
	Doc: `Made in an optimizer's step and kept: its state, usually made in the first step. Scalars are step
counters. Less sure without stacks where the step failed, or where it was made outside of every step that the
recording names.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Optimizer),
	Needs:  []rules.Need{rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			b := a.Born(id)
			switch {
			case a.Timeline.Requested(id) <= phases.Scalar:
				return rules.KindOf(meaning.OptimizerState, meaning.StepCounter, rules.Plausible)
			case a.Recorded.Allocs:
			case len(a.Windows) > 0 && a.Covered[b] == 0: // made outside of all steps that are named
				return rules.As(meaning.OptimizerState, rules.Guess)
			case a.FailedBetween(b, a.Runs[a.Run(b)].End): // or what the step that failed worked in
				return rules.As(meaning.OptimizerState, rules.Plausible)
			}
			return rules.As(meaning.OptimizerState, rules.Strong)
		}
	},
}

// findSpare sees what an optimizer worked in when a request of its failed or the
// recording ended, and what so lives as long as its state: by the lines that make
// state, else, after a failure, what is more than two for each weight.
func findSpare(a *rules.Facts) map[timeline.AllocationID]bool {
	failed := a.Last
	if n := len(a.OOMs); n > 0 && a.Phases[a.OOMs[n-1]] == meaning.Optimizer {
		failed = a.OOMs[n-1]
	} else if a.Last == 0 || !a.Recorded.Allocs || a.Phases[a.Last-1] != meaning.Optimizer {
		return nil
	}
	first := a.Runs[a.Run(min(failed, a.Last-1))].First
	made := map[int64]int{} // by size, that stay
	var marked bool
	var working, more []timeline.AllocationID
	for i := range a.Category {
		id := timeline.AllocationID(i)
		b := a.Born(id)
		if b < 0 || b >= failed || a.Phase[id] != meaning.Optimizer || a.Freed(id) < failed {
			continue
		}
		n := a.Timeline.Requested(id)
		if made[n]++; b >= first && n > phases.Scalar && made[n] > 2*a.WeightSize[n] && a.WeightSize[n] > 0 {
			more = append(more, id)
		}
		if a.Birth(id).Marks&frames.State != 0 {
			marked = true
		} else if b >= first {
			working = append(working, id)
		}
	}
	if a.Recorded.Allocs {
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
