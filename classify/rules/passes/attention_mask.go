package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var MaskInForward = &rules.Rule{
	ID: "attention-mask",
	Doc: `Made by code of attention masks and there until a failure or the end of the recording: a mask that a
variable holds through the pass. It is as temporary as the pass.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Birth:  frames.Mask,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if f := a.Freed(id); f >= a.Last || a.FailedBetween(a.Born(id), f) {
				return rules.As(meaning.Temporary, rules.Guess)
			}
			return rules.Claim{}
		}
	},
}
