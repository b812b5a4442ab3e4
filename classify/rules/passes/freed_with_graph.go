package passes

import (
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var FreedWithGraph = &rules.Rule{
	ID: "freed-with-graph",
	Doc: `Made in a forward pass that no backward pass used, and gone together with many others, as an autograd
graph goes when nobody refers to it any more: saved activations. Less sure where a failure cut the pass short.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Needs:  []rules.Need{rules.Saved, Recomputation},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		saved, again := rules.Saved.Of(a), Recomputation.Of(a)
		if !slices.Contains(saved.InBulk, true) {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			switch {
			case !saved.InBulk[id] || again.Through[id] || !rules.BeforeBackward(a, id):
			case a.Trains:
				return rules.As(meaning.Activations, rules.Likely)
			case !saved.Saves:
			case a.FailedBetween(a.Born(id), a.Freed(id)): // but for what the request that failed was made with
				return rules.As(meaning.Activations, rules.Plausible)
			default:
				return rules.As(meaning.Activations, rules.Likely)
			}
			return rules.Claim{}
		}
	},
}
