package stacks

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var LossGradient = &rules.Rule{
	ID: "loss-gradient",
	Doc: `Made by the gradient of a classification loss (softmax, cross-entropy) in a backward pass that was cut off: as
large as the logits. Of a whole pass, sizes tell.`,
	Signal: meaning.ByNativeStack,
	Born:   rules.BornIn(meaning.Backward),
	Birth:  frames.LossGrad,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return ofNative(a, func(id timeline.AllocationID) rules.Claim {
			if a.Timeline.Requested(id) <= 64 || !rules.IsCut(a, &a.Runs[a.Run(a.Born(id))]) {
				return rules.Claim{}
			}
			return rules.KindOf(meaning.Logits, meaning.LogitsGradient, rules.Strong)
		})
	},
}
