package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var InputWithoutModel = &rules.Rule{
	ID:     "data-without-model",
	Doc:    `Made by the program's own code and kept, in a program in which no model shows: data, by guess.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.ZeroGrad, meaning.OtherPhase),
	Birth:  frames.UserInner,
	Needs:  []rules.Need{rules.Stacks, rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		if !a.Plain {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			if !a.Outlives(id) {
				return rules.Claim{}
			}
			return rules.As(meaning.Inputs, rules.Guess)
		}
	},
}
