package phases

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// chain is blocks of one size of which each takes the place of the one before, pass after pass.
type chain struct {
	event, first, last, links int // the first block's event; which allocations of the stretch the first and the last one are
}

// sampler is the event at which a stretch of untrained passes begins to sample, as a diffusion model does; -1 where it doesn't.
// What a pass ends with takes the place of what the pass began with, and nothing is loaded in between: an evaluation makes its
// results first at the end of its first pass, or its batches last at the beginning of the last one. A
// pass that is trained on makes a usual number of allocations.
func (a untrained) sampler(s stretch, usual int) int {
	const near = 4                // allocations between a block and the free of what it replaces
	far := max(4*near, usual*2/5) // a pass; layers replace what they work on, too
	chains, newest := map[timeline.AllocationID]chain{}, map[int64]timeline.AllocationID{}
	made, loaded := 0, 0
	for i := s.first; i < s.end; i++ {
		id := a.Timeline.Of[i]
		if id == timeline.NoAllocation {
			continue
		}
		n := a.Timeline.Requested(id)
		switch a.Events.Action[i] {
		case snapshot.Alloc:
			made++
			if a.Phases[i] == meaning.Data {
				loaded = made
			}
			if n > Scalar {
				newest[n], chains[id] = id, chain{i, made, made, 0}
			}
		case snapshot.FreeRequested:
			old, ok := chains[id]
			heir := chains[newest[n]]
			if !ok || newest[n] == id || made-heir.last > near {
				continue
			}
			chains[newest[n]] = heir.replaces(old, far)
			delete(chains, id)
		}
	}
	at := -1
	for _, c := range chains {
		if loaded < c.first && c.spans(made) && (at < 0 || c.event < at) {
			at = c.event
		}
	}
	return at
}

// spans reports whether blocks take each other's place over several passes, from the beginning to the end of so many allocations.
func (c chain) spans(made int) bool {
	const few = 3 // passes
	each := (c.last - c.first) / max(1, c.links)
	return c.links >= few && 2*c.first <= each && 2*(made-c.last) <= each
}

// replaces is a chain with the block that takes the place of its last one, whose own chain may be longer.
func (c chain) replaces(old chain, far int) chain {
	if c.last-old.last >= far {
		old.links++
	}
	if old.links >= c.links {
		old.last = c.last
		return old
	}
	return c
}
