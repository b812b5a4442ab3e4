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
		return rules.Among(findSpare(a), rules.As(meaning.Temporary, rules.Likely))
	},
}

// findSpare sees what an optimizer worked in when a request of its failed or the
// recording ended, and what so lives as long as its state: by the lines that make
// state, else, after a failure, what is more than two for each weight.
//
// complexity: conditions on one block, with and without stacks.
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
