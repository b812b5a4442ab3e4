package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var UnfinishedBackward = &rules.Rule{
	ID: "backward-at-end",
	Doc: `Made in the backward pass in which the recording ends, and still there: an activation where checkpointing
makes it again, a gradient where it is as large as a weight, else a temporary, by guess.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Backward),
	Needs:  []rules.Need{rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		sizes := rules.Sizes.Of(a)
		return func(id timeline.AllocationID) rules.Claim {
			switch {
			case a.Freed(id) < a.Last || a.Runs[a.Run(a.Born(id))].End < a.Last:
				return rules.Claim{}
			case rebuilt(a.Birth(id).Marks):
				return rules.KindOf(meaning.Activations, meaning.Recomputed, rules.Likely)
			case sizes.WeightSize[a.Timeline.Requested(id)] > 0:
				return rules.As(meaning.Gradients, rules.Plausible)
			}
			return rules.As(meaning.Temporary, rules.Guess)
		}
	},
}

// rebuilt reports whether checkpointing runs a module again there, and no pass through its graph.
func rebuilt(birth frames.Marks) bool {
	return birth&frames.Rebuild != 0 && birth&(frames.InModule|frames.Nested) == frames.InModule
}
