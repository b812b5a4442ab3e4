package stacks

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var CastByFrames = &rules.Rule{
	ID: "autocast-cast",
	Doc: `Made by autocast's own cast, and half as large as a weight: the 16-bit copy that autocast keeps until
its range ends.`,
	Signal: meaning.ByNativeStack,
	Born:   rules.AnyTime,
	Birth:  frames.Cast,
	Needs:  []rules.Need{rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return ofNative(a, func(id timeline.AllocationID) rules.Claim {
			if !a.WeightHalf[a.Timeline.Requested(id)] {
				return rules.Claim{}
			}
			return rules.As(meaning.AutocastCopies, rules.Strong)
		})
	},
}
