package weights

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var DataSetBySize = &rules.Rule{
	ID: "data-set-by-size",
	Doc: `A single large block that setup leaves among weights that all have gradients, and that has none, in a
recording without stacks: a data set on the GPU.`,
	Signal: meaning.BySize,
	Born:   rules.AnyTime,
	Needs:  []rules.Need{rules.NoStacks, rules.Training, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return rules.Among(a.Dataset, rules.As(meaning.Inputs, rules.Likely+1))
	},
}
