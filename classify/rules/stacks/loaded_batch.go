package stacks

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var InputPython = &rules.Rule{
	ID:     "loaded-batch",
	Doc:    `Made by code that loads or moves batches: data loaders, prefetchers, collation.`,
	Signal: meaning.ByPythonStack,
	Born:   rules.AnyTime,
	Birth:  frames.Input,
	Begin: func(*rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(timeline.AllocationID) rules.Claim { return rules.As(meaning.Inputs, rules.Strong) }
	},
}
