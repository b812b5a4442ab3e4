package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var SavedForBackward = &rules.Rule{
	ID: "saved-for-backward",
	Doc: `Made in a forward pass and freed by the backward pass that follows: saved for backward. A scalar that
goes with the end of the pass is temporary; compiled code doesn't tell a cast weight from an activation.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Needs:  []rules.Need{rules.Training, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		sizes := rules.Sizes.Of(a)
		return func(id timeline.AllocationID) rules.Claim {
			f := a.Freed(id)
			if f >= a.Last || a.Phases[f] != meaning.Backward || rules.BeforeBackward(a, id) {
				return rules.Claim{}
			}
			n, end := a.Timeline.Requested(id), a.BackwardAfter(a.Run(a.Born(id))).End
			switch {
			case f < end && end-f < 3 && n <= phases.Scalar:
				return rules.As(meaning.Temporary, rules.Guess)
			case a.Birth(id).Marks&frames.Inductor != 0 && sizes.WeightHalf[n]:
				return rules.As(meaning.Activations, rules.Likely) // or a cast weight: compiled code doesn't say
			}
			return rules.As(meaning.Activations, byLifeAlone)
		}
	},
}
