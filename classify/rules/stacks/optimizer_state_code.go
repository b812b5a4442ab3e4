package stacks

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var StatePython = &rules.Rule{
	ID: "optimizer-state-code",
	Doc: `Made by code of torch.optim, or of a library's optimizer, that makes an optimizer's state, and not gone
right after: moments, step counters, master weights.`,
	Signal: meaning.ByPythonStack,
	Born:   rules.AnyTime,
	Birth:  frames.State,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if !a.Outlives(id) && a.Freed(id)-a.Born(id) <= 200 {
				return rules.Silence()
			}
			return rules.As(meaning.OptimizerState, rules.Strong)
		}
	},
}
