package stacks

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/classify/rules/optimizer"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var WeightPython = &rules.Rule{
	ID: "module-weight",
	Doc: `Made in setup by code that builds, loads, moves or converts a module (nn.Module, from_pretrained,
load_state_dict), and there after it: a parameter or buffer. Less sure where a file was read and the optimizer makes
no state, which may have come from that file.`,
	Signal: meaning.ByPythonStack,
	Born:   rules.AnyTime,
	Birth:  frames.Weight,
	Needs:  []rules.Need{rules.Sizes, optimizer.Beside},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		sizes, beside := rules.Sizes.Of(a), optimizer.Beside.Of(a)
		return func(id timeline.AllocationID) rules.Claim {
			e := a.Birth(id)
			switch {
			case a.Phase[id] != meaning.Setup || beside[id].Sure > 0:
				return rules.Claim{}
			case a.Outlives(id) || a.Run(a.Freed(id)) != a.Run(a.Born(id)):
				if e.Marks&frames.Stored != 0 && a.Trains && len(sizes.StateSize) == 0 {
					// or the state of an optimizer that makes none
					return rules.KindOf(meaning.Weights, meaning.Parameter, rules.Plausible)
				}
				return rules.KindOf(meaning.Weights, meaning.Parameter, rules.Strong)
			case e.Hint == meaning.HintOf(meaning.Setup) && a.Freed(id)-a.Born(id) > 64:
				return rules.KindOf(meaning.Weights, meaning.Parameter, rules.Plausible)
			}
			return rules.Silence()
		}
	},
}
