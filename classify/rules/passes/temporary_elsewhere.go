package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var TemporaryElsewhere = &rules.Rule{
	ID: "temporary-elsewhere",
	Doc: `Made outside of passes and steps, or made and freed in setup: temporary. A guess where it is as large as a weight and
stays, since it may be a copy of one; what the program's own code makes there for a whole training pass is a batch, by guess.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Setup, meaning.ZeroGrad, meaning.OtherPhase),
	Needs:  []rules.Need{rules.Sizes},
	Proven: 85,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		sizes := rules.Sizes.Of(a)
		return func(id timeline.AllocationID) rules.Claim {
			pass := a.BackwardAfter(a.Run(a.Born(id)))
			switch own := a.Birth(id).Marks&(frames.UserInner|frames.InModule) == frames.UserInner; {
			case own && pass != nil && pass.End <= a.Freed(id) && a.Freed(id) < a.Last &&
				sizes.WeightSize[a.Timeline.Requested(id)] == 0:
				return rules.As(meaning.Inputs, rules.Guess) // what the program picks for several passes
			case a.Outlives(id) && rules.WeightSized(a, id):
				return rules.As(meaning.Temporary, rules.Guess) // or a copy of a weight
			}
			return rules.As(meaning.Temporary, rules.Plausible)
		}
	},
}
