package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var UnseenBackward = &rules.Rule{
	ID: "backward-not-seen",
	Doc: `Made in a forward pass of a program whose optimizer steps though no backward pass could be seen, and there for
a while: an activation, by guess. What is as large as a weight and goes with an optimizer's step, or stays, is a gradient.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Needs:  []rules.Need{rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		if a.Trains || !a.Updates {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			f := a.Freed(id)
			switch used := meaning.HintOf(a.PhaseAt(f)).Is(meaning.Optimizer, meaning.ZeroGrad); {
			case f-a.Born(id) <= 16:
				return rules.Claim{}
			case rules.WeightSized(a, id) && (used || f >= a.Last):
				return rules.As(meaning.Gradients, rules.Guess)
			}
			return rules.As(meaning.Activations, rules.Guess)
		}
	},
}
