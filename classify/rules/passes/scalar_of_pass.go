package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var ScalarBeyondBackward = &rules.Rule{
	ID:     "scalar-of-pass",
	Doc:    `A scalar that a forward pass made and that is there after its backward pass: a loss or a metric.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Needs:  []rules.Need{rules.Training, rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if a.Timeline.Requested(id) > phases.Scalar || beforeBackward(a, id) {
				return rules.Claim{}
			}
			return rules.As(meaning.Temporary, rules.Plausible+5)
		}
	},
}
