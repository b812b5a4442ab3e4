package stacks

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var OwnCachePython = &rules.Rule{
	ID: "kv-cache-own-class",
	Doc: `Made by a function of the program's own whose name says cache, as one of a row of equal blocks that
belongs to the model's layers.`,
	Signal: meaning.ByPythonStack,
	Born:   rules.AnyTime,
	Needs:  []rules.Need{rules.Rows},
	Birth:  frames.OwnCache | frames.AnyCache,
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if !a.Kept[id] {
				return rules.Claim{}
			}
			return rules.As(meaning.KVCache, rules.Plausible)
		}
	},
}
