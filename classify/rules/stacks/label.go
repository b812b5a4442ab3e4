package stacks

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var ByLabel = &rules.Rule{
	ID: "label",
	Doc: `Somebody who knows said so: a labels file, or the recording's own metadata. Labels are believed
before everything else.`,
	Signal: meaning.ByLabel,
	Born:   rules.AnyTime,
	Needs:  []rules.Need{rules.Labels},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if c, ok := a.Labels[id]; ok && c != meaning.Unknown {
				return rules.As(c, 100)
			}
			return rules.Claim{}
		}
	},
}
