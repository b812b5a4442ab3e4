package classify

import "github.com/vramscope/vramscope/timeline"

var gatheredByAnnotation = &Rule{
	ID: "fsdp-range",
	Doc: `Made within a range that FSDP names while it gathers or scatters shards. What such a range in a
backward pass leaves behind are gradients; all else is communication.`,
	Signal: ByAnnotation,
	Born:   anyBirth &^ bornIn(Setup),
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		if a.sharing == nil {
			return nil
		}
		return func(id timeline.AllocationID) claim {
			switch {
			case !a.sharing[a.born(id)]:
				return claim{}
			case a.Phase[id] == Backward && outlivesPass(a, id):
				return as(Gradients, likely)
			}
			return kindOf(Communication, GatheredShard, strong)
		}
	},
}
