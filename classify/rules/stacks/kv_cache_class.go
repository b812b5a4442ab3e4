package stacks

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var CachePython = &rules.Rule{
	ID: "kv-cache-class",
	Doc: `Made by a library's key-value cache (Transformers' cache_utils and its kin), in forward, generation or
setup.`,
	Signal: meaning.ByPythonStack,
	Born:   rules.AnyTime,
	Birth:  frames.Cache,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			switch a.Phase[id] {
			case meaning.Forward, meaning.Generate, meaning.Setup:
				return rules.As(meaning.KVCache, rules.Strong)
			}
			return rules.Claim{}
		}
	},
}
