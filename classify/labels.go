package classify

import "github.com/vramscope/vramscope/timeline"

var byLabel = &Rule{
	ID: "label",
	Doc: `Somebody who knows said so: a labels file, or the recording's own metadata. Labels are believed
before everything else.`,
	Signal: ByLabel,
	Born:   anyTime,
	Needs:  []Need{Labels},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			if c, ok := a.labels[id]; ok && c != Unknown {
				return as(c, 100)
			}
			return claim{}
		}
	},
}
