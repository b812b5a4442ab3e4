package weights

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var OwnInputs = &rules.Rule{
	ID: "data-of-setup",
	Doc: `Left by setup and made by the program's own code outside of all modules, of a size that nothing trains:
a data set or a table on the GPU.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Setup),
	Needs:  []rules.Need{rules.Stacks},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if !outlivesSetup(a, id) || !madeByProgram(a, id) {
				return rules.Claim{}
			}
			return rules.As(meaning.Inputs, rules.Plausible)
		}
	},
}
