package stacks

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var ReducedGradient = &rules.Rule{
	ID: "fsdp-gradient",
	Doc: `Made where FSDP reduces gradients, and there after the backward pass: the shard of the gradients that
this rank keeps.`,
	Signal: meaning.ByPythonStack,
	Born:   rules.AnyTime,
	Birth:  frames.Keep,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if !rules.OutlivesPass(a, id) {
				return rules.Claim{}
			}
			return rules.As(meaning.Gradients, rules.Strong)
		}
	},
}
