package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var TemporaryInData = &rules.Rule{
	ID:     "temporary-in-loading",
	Doc:    `Made and freed while a batch is loaded.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Data),
	Needs:  []rules.Need{rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if a.Run(a.Freed(id)) != a.Run(a.Born(id)) {
				return rules.Claim{}
			}
			return rules.As(meaning.Temporary, rules.Plausible)
		}
	},
}

var WeightSizedBatch = &rules.Rule{
	ID: "batch-or-copy",
	Doc: `Made where a batch is expected, without stacks, and as large as a weight: a batch, or what the program
makes of its weights' gradients. A guess either way.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Data),
	Needs:  []rules.Need{rules.NoStacks, rules.Lives, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			switch {
			case !rules.WeightSized(a, id):
				return rules.Claim{}
			case copiesGradient(a, id):
				return rules.As(meaning.Gradients, rules.Guess)
			}
			return rules.As(meaning.Inputs, rules.Guess)
		}
	},
}

var BatchByLife = &rules.Rule{
	ID: "batch",
	Doc: `Made between two passes, where batches are loaded, and used by the next pass. Less sure where the
recording began within a step, or has no stacks.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Data),
	Needs:  []rules.Need{rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		sure := uint8(rules.Likely + 7)
		switch {
		case !a.Recorded.Allocs: // or the first that forward keeps
			sure = rules.Likely
		case a.Timeline.Older() > 0: // or what is kept of a step, in a recording that begins in the middle of one
			sure = rules.Plausible
		}
		return func(timeline.AllocationID) rules.Claim { return rules.As(meaning.Inputs, sure) }
	},
}
