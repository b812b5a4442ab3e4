package phases

import (
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

// NoModel tells programs without a model.
var NoModel = &Signal{
	ID: "no-model",
	Doc: `The program neither makes nor loads weights, calls no module and trains nothing, as far as its stacks show, from its
beginning on: all its work is other. Of what is older than the recording each block must have a stack, for it may be a model.`,
	Needs: []Need{OwnLines},
	Find: func(f *facts) (x found) {
		older := timeline.AllocationID(f.Timeline.Older())
		if f.All&(frames.Weight|frames.InModule) != 0 || int(older) == f.Timeline.Len() {
			return x
		}
		for id := range older {
			if f.Outlives(id) && f.Timeline.Stack(id) == 0 {
				return x
			}
		}
		if slices.ContainsFunc(f.hints, func(s said) bool { return s.hint() != 0 && !s.hint().Is(meaning.Setup) }) {
			return x
		}
		x.spans.add(0, f.Last, meaning.OtherPhase)
		x.plain = true
		return x
	},
}
