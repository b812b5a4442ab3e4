package classify

import (
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var handedToHook = &Rule{
	ID: "recomputed-for-hook",
	Doc: `Made again by checkpointing (use_reentrant=False) for the hook of a saved tensor, and let go by the
autograd node that used it. Without a nested pass, no frame of checkpointing stands in its free.`,
	Signal: ByFreeStack,
	Born:   anyTime,
	Needs:  []Need{Stacks},
	Death:  frames.Release | frames.Engine,
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			d := a.death(id).Marks
			switch {
			case d&frames.Unpacked != 0: // gone before the hook had what it was made for
				return silence()
			case d&frames.Release != 0:
				return claim{}
			case d&(frames.Engine|frames.Rebuild) == frames.Engine &&
				a.birth(id).Marks&(frames.Unpacked|frames.Nested) == frames.Unpacked && a.Phase[id] == Backward:
				return kindOf(Activations, Recomputed, strong)
			}
			return silence()
		}
	},
}

var releasedByAutograd = &Rule{
	ID: "released-by-autograd",
	Doc: `The stack of its free is autograd releasing a tensor that it had saved for backward. Made in forward it
is a saved activation; made in backward it was made again by checkpointing, or copied back from the host.`,
	Signal: ByFreeStack,
	Born:   anyTime,
	Death:  frames.Release,
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			if a.born(id) < 0 && a.t.Stack(id) == 0 {
				return as(Activations, likely) // or logits, which are saved, too
			}
			switch marks := a.birth(id).Marks; a.Phase[id] {
			case Backward:
				switch {
				case marks&frames.Restore != 0:
					return kindOf(Activations, Restored, strong)
				case marks&frames.Rebuild != 0:
					return kindOf(Activations, Recomputed, strong)
				}
				return as(Activations, likely)
			case Forward, OtherPhase, Generate:
				return as(Activations, strong-2)
			}
			return claim{}
		}
	},
}
