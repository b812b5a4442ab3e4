package optimizer

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

var TemporaryInStep = &rules.Rule{
	ID: "temporary-in-step",
	Doc: `Made in an optimizer's step and gone before the next one. Without stacks, what is as large as a weight and outlives
the step's own work may be the program's copy of a gradient, by guess.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Optimizer),
	Needs:  []rules.Need{rules.Sizes, remade},
	Begin: func(a *rules.Facts) rules.Says {
		remade, made := remade.Of(a), a.Last // where nothing is made any more
		for made > 0 && a.Events.Action[made-1] != snapshot.Alloc {
			made--
		}
		return func(id timeline.AllocationID) rules.Claim {
			gone, in, next := stepsUntil(a, id)
			switch {
			case gone != in && gone >= next:
				return rules.Claim{}
			case a.Recorded.Allocs && gone > int(a.NextBackward[in]): // a step that makes nothing follows
				return rules.Claim{}
			case len(remade) > 0 && a.Freed(id) >= made && remade[a.Timeline.Requested(id)]:
				return rules.Claim{}
			case gone != in && !a.Recorded.Allocs && rules.WeightSized(a, id):
				return rules.As(meaning.Gradients, rules.Guess)
			}
			return rules.As(meaning.Temporary, rules.Strong)
		}
	},
}
