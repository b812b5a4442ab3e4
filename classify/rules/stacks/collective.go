package stacks

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var GatheredPython = &rules.Rule{
	ID: "collective",
	Doc: `Made by code of collective communication or sharding (FSDP, DeepSpeed, c10d): what is gathered from
or sent to other ranks.`,
	Signal: meaning.ByPythonStack,
	Born:   rules.AnyTime,
	Birth:  frames.Comm,
	Begin: func(*rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(timeline.AllocationID) rules.Claim {
			return rules.KindOf(meaning.Communication, meaning.GatheredShard, rules.Strong)
		}
	},
}
