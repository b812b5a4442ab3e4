package phases

import (
	"slices"

	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// FlatWeights finds what weights were packed into, which tells setup's work from passes.
var FlatWeights = &Signal{
	ID: "flat-weights",
	Doc: `Right after a flat buffer was made, allocations that have its size together are freed, one after the other: sharded
training packs its weights before the loop. Without stacks weights of models that are dropped, as a teacher's, are known, too.
What is done to them is setup, not a pass.`,
	Find: func(f *facts) found {
		x := packing{f, found{packed: map[timeline.AllocationID]bool{}, unpacked: map[timeline.AllocationID]bool{}}}
		x.find()
		return x.found
	},
}

type packing struct {
	*facts
	found
}

func (a packing) find() {
	const (
		few    = 8 // weights
		recent = 4 // allocations before the first of the frees
	)
	var made, freed []timeline.AllocationID // last; one after the other
	var bytes int64                         // of those freed
	for i := range a.Last {
		switch id := a.Timeline.Of[i]; {
		case id == timeline.NoAllocation:
		case a.Events.Action[i] == snapshot.FreeRequested:
			freed, bytes = append(freed, id), bytes+a.Timeline.Requested(id)
		case a.Events.Action[i] == snapshot.Alloc:
			if len(freed) >= few {
				a.pack(made[max(0, len(made)-recent):], freed, bytes, i)
			}
			for from := 0; len(freed)-from >= few && !a.Recorded.Allocs; {
				end := from + 1
				for end < len(freed) && freed[end] > freed[end-1] {
					end++
				}
				if end-from >= few && a.isModel(freed[from:end]) {
					for _, id := range freed[from:end] {
						a.found.unpacked[id] = true
					}
				}
				from = end
			}
			made, freed, bytes = append(made[max(0, len(made)-recent):], id), freed[:0], 0
		}
	}
}

// pack marks the first of some allocations that is a flat buffer at an event, and what it was made of.
func (a packing) pack(made, parts []timeline.AllocationID, bytes int64, event int) {
	for _, flat := range made {
		n, padded := a.Timeline.Requested(flat), bytes/64 // for all ranks
		if n < bytes || n-bytes > padded || a.Freed(flat) <= event ||
			slices.ContainsFunc(parts, func(id timeline.AllocationID) bool { return a.Born(id) > a.Born(flat) }) {
			continue
		}
		a.found.packed[flat] = true
		for _, id := range parts {
			a.found.unpacked[id] = true
		}
		return
	}
}

// isModel reports whether what is freed in the order of its birth are the weights of a model: made in a row, too, with next
// to nothing else, and long before.
func (a packing) isModel(freed []timeline.AllocationID) bool {
	first, last := freed[0], freed[len(freed)-1]
	born, there := a.Born(last), 0
	if len(freed)*4 < int(last-first) || a.Freed(first)-born < 4*(born-a.Born(first)) {
		return false
	}
	for id := first; id <= last; id++ {
		there += AsInt(a.Freed(id) > born)
	}
	return len(freed)*10 >= there*9
}
