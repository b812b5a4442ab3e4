package stacks

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var ReleasedByAutograd = &rules.Rule{
	ID: "released-by-autograd",
	Doc: `The stack of its free is autograd releasing a tensor that it had saved for backward. Made in forward it
is a saved activation; made in backward it was made again by checkpointing, or copied back from the host.`,
	Signal: meaning.ByFreeStack,
	Born:   rules.AnyTime,
	Death:  frames.Release,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if a.Born(id) < 0 && a.Timeline.Stack(id) == 0 {
				return rules.As(meaning.Activations, rules.Likely) // or logits, which are saved, too
			}
			switch marks := a.Birth(id).Marks; a.Phase[id] {
			case meaning.Backward:
				switch {
				case marks&frames.Restore != 0:
					return rules.KindOf(meaning.Activations, meaning.Restored, rules.Strong)
				case marks&frames.Rebuild != 0:
					return rules.KindOf(meaning.Activations, meaning.Recomputed, rules.Strong)
				}
				return rules.As(meaning.Activations, rules.Likely)
			case meaning.Forward, meaning.OtherPhase, meaning.Generate:
				return rules.As(meaning.Activations, rules.Strong-2)
			}
			return rules.Claim{}
		}
	},
}
