package stacks

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var LossGradient = &rules.Rule{
	ID: "loss-gradient",
	Doc: `Made in a backward pass by the gradient of a classification loss (softmax, cross-entropy): as large as
the logits.`,
	Signal: meaning.ByNativeStack,
	Born:   rules.BornIn(meaning.Backward),
	Birth:  frames.LossGrad,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return ofNative(a, func(id timeline.AllocationID) rules.Claim {
			if a.Timeline.Requested(id) <= 64 {
				return rules.Claim{}
			}
			return rules.KindOf(meaning.Logits, meaning.LogitsGradient, rules.Strong)
		})
	},
}
