package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var OutlivesBackward = &rules.Rule{
	ID: "outlives-backward",
	Doc: `Made in a forward pass and still there after its backward pass. Where the pass was cut off, its graph is
kept, or a module holds it until it is made again, it is an activation; else a result. A guess either way. A line
that loads batches makes inputs.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Needs:  []rules.Need{rules.Training, rules.Lives, rules.Releases},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			if rules.BeforeBackward(a, id) {
				return rules.Claim{}
			}
			r := a.Run(a.Born(id))
			if a.Loads[a.Timeline.Stack(id)] {
				return rules.As(meaning.Inputs, rules.Plausible)
			}
			if rules.IsCut(a, a.BackwardAfter(r)) || a.Retained[r] || heldByModule(a, id) {
				return rules.As(meaning.Activations, rules.Guess)
			}
			return rules.As(meaning.Temporary, rules.Guess)
		}
	},
}

// heldByModule is true of what outlives its backward pass, was made by a layer, and
// goes when that layer makes it again: an attribute or a hook holds it, and what
// follows in the model has saved it, most likely.
//
//worth:off false
func heldByModule(a *rules.Facts, id timeline.AllocationID) bool {
	n := int(a.Step[id])
	if a.Birth(id).Depth < 2 || n < 0 || n+1 >= len(a.Steps) || a.Freed(id) > a.Steps[n+1].LastEvent {
		return false
	}
	b := a.Born(id)
	r := a.Runs[a.Run(b)]
	made, all := (b-r.First)*20, r.End-r.First
	return made > all && made < all*18 // the first ones are masks and tables, the last what the model returns
}
