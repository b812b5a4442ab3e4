package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var RootGradient = &rules.Rule{
	ID:     "root-gradient",
	Doc:    `Made by autograd as the gradient that a backward pass starts from, as the frames say.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Backward),
	Birth:  frames.Rooted,
	Begin: func(*rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(timeline.AllocationID) rules.Claim { return rules.As(meaning.Temporary, rules.Strong) }
	},
}
