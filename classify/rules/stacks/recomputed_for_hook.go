package stacks

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var HandedToHook = &rules.Rule{
	ID: "recomputed-for-hook",
	Doc: `Made again by checkpointing (use_reentrant=False) for the hook of a saved tensor, and let go by the
autograd node that used it. Without a nested pass, no frame of checkpointing stands in its free.`,
	Signal: meaning.ByFreeStack,
	Born:   rules.AnyTime,
	Needs:  []rules.Need{rules.Stacks},
	Death:  frames.Release | frames.Engine,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			d := a.Death(id).Marks
			switch {
			case d&frames.Unpacked != 0: // gone before the hook had what it was made for
				return rules.Silence()
			case d&frames.Release != 0:
				return rules.Claim{}
			case d&(frames.Engine|frames.Rebuild) == frames.Engine &&
				a.Birth(id).Marks&(frames.Unpacked|frames.Nested) == frames.Unpacked && a.Phase[id] == meaning.Backward:
				return rules.KindOf(meaning.Activations, meaning.Recomputed, rules.Strong)
			}
			return rules.Silence()
		}
	},
}
