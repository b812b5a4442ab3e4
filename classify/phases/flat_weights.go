package phases

import (
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// findPacked finds the flat buffers into which sharded training packs its
// weights before the loop: right after one was made, allocations that have its
// size together are freed, one after the other.
func (a *Program) findPacked() {
	const (
		few    = 8       // weights
		recent = 4       // allocations before the first of the frees
		setup  = 1 << 16 // events
	)
	a.Packed, a.Unpacked = map[timeline.AllocationID]bool{}, map[timeline.AllocationID]bool{}
	var made, freed []timeline.AllocationID // last; one after the other
	var bytes int64                         // of those freed
	for i := range min(a.Last, setup) {
		switch id := a.Timeline.Of[i]; {
		case id == timeline.NoAllocation:
		case a.Events.Action[i] == snapshot.FreeRequested:
			freed, bytes = append(freed, id), bytes+a.Timeline.Requested(id)
		case a.Events.Action[i] == snapshot.Alloc:
			if len(freed) >= few {
				for _, flat := range made[max(0, len(made)-recent):] {
					a.pack(flat, freed, bytes, i)
				}
			}
			made, freed, bytes = append(made, id), freed[:0], 0
		}
	}
}

// pack marks a flat buffer and what it was made of, if it is one at an event.
func (a *Program) pack(flat timeline.AllocationID, parts []timeline.AllocationID, bytes int64, event int) {
	n := a.Timeline.Requested(flat)
	if n < bytes || n-bytes > bytes/64 || a.Freed(flat) <= event { // padded for all ranks
		return
	}
	for _, id := range parts {
		if a.Born(id) > a.Born(flat) {
			return
		}
	}
	a.Packed[flat] = true
	for _, id := range parts {
		a.Unpacked[id] = true
	}
}
