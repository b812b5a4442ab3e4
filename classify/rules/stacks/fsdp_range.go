package stacks

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var GatheredByAnnotation = &rules.Rule{
	ID: "fsdp-range",
	Doc: `Made within a range that FSDP names while it gathers or scatters shards. What such a range in a
backward pass leaves behind are gradients; all else is communication.`,
	Signal: meaning.ByAnnotation,
	Born:   rules.AnyBirth &^ rules.BornIn(meaning.Setup),
	Needs:  []rules.Need{rules.Sharing},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		sharing := rules.Sharing.Of(a)
		if sharing == nil {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			switch {
			case !sharing[a.Born(id)]:
				return rules.Claim{}
			case a.Phase[id] == meaning.Backward && rules.OutlivesPass(a, id):
				return rules.As(meaning.Gradients, rules.Likely)
			}
			return rules.KindOf(meaning.Communication, meaning.GatheredShard, rules.Strong)
		}
	},
}
