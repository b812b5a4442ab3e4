package stacks

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var RestoredPython = &rules.Rule{
	ID: "restored-from-host",
	Doc: `Made in a backward pass by save_on_cpu or a hook like it: a saved activation that comes back from the
host.`,
	Signal: meaning.ByPythonStack,
	Born:   rules.BornIn(meaning.Backward),
	Birth:  frames.Restore,
	Begin: func(*rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(timeline.AllocationID) rules.Claim {
			return rules.KindOf(meaning.Activations, meaning.Restored, rules.Strong)
		}
	},
}
