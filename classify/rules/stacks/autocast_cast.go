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
its range ends. A layer casts its weight first, what it is applied to right after; and a size of which each pass casts more
than there are weights is that of activations.`,
	Signal: meaning.ByNativeStack,
	Born:   rules.AnyTime,
	Birth:  frames.Cast,
	Needs:  []rules.Need{rules.Sizes},
	Proven: 65,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		sizes, casts := rules.Sizes.Of(a), castsPerPass(a)
		return ofNative(a, func(id timeline.AllocationID) rules.Claim {
			n := a.Timeline.Requested(id)
			if !sizes.WeightHalf[n] || casts[n] > sizes.WeightSize[2*n]+sizes.WeightSize[2*n+1] {
				return rules.Claim{}
			}
			return rules.As(meaning.AutocastCopies, rules.Strong)
		})
	},
}

// castsPerPass counts by size what autocast casts in forward, in the pass that casts least of it.
//
//worth:off nil
func castsPerPass(a *rules.Facts) map[int64]int {
	type cast struct {
		bytes int64
		run   int
	}
	sizes := rules.Sizes.Of(a)
	all, least := map[cast]int{}, map[int64]int{}
	for i := range a.Category {
		id := timeline.AllocationID(i)
		if n := a.Timeline.Requested(id); a.Phase[i] == meaning.Forward && a.Birth(id).Marks&frames.Cast != 0 &&
			sizes.WeightHalf[n] {
			all[cast{n, a.Run(a.Born(id))}]++
		}
	}
	for c, n := range all {
		if known := least[c.bytes]; known == 0 || n < known {
			least[c.bytes] = n
		}
	}
	return least
}
