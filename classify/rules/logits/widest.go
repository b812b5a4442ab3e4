package logits

import (
	"maps"
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// markWidest marks what may be logits though no loss shows, as where a program
// computes with each token's own or with a part of them at a time: requests of a pass,
// however many of a few sizes, that are far larger than all others.
//
//worth:off
func markWidest(a *look, p rules.Pass) {
	const few, far, part = 16, 3, 5 // sizes; times as large; one in so many requests: layers are more
	var all []timeline.AllocationID
	of := map[int64]int{}
	for i := p.First; i < p.End; i++ {
		id, n := a.Timeline.Of[i], a.Events.Size[i]
		if a.Events.Action[i] == snapshot.Alloc && n >= 1<<16 && a.Logits[id] == meaning.NoDetail && !a.IsWorkspaceBySize(id) {
			all, of[n] = append(all, id), of[n]+1
		}
	}
	sizes := slices.Sorted(maps.Keys(of))
	slices.Reverse(sizes)
	wide := 0
	for k := range min(few, len(sizes)-1) {
		if wide += of[sizes[k]]; wide*part > len(all) {
			return
		}
		if sizes[k] < far*sizes[k+1] {
			continue
		}
		for _, id := range all {
			if a.Timeline.Requested(id) >= sizes[k] {
				a.Widest[id] = true
			}
		}
		markWidestIn(a, p.Backward, sizes[k])
		return
	}
}

// markWidestIn marks what may be the gradients of such logits: as large as they are,
// and gone by the end of the backward pass.
//
//worth:off
func markWidestIn(a *look, backward *phases.Run, least int64) {
	if backward == nil {
		return
	}
	for i := backward.First; i < backward.End; i++ {
		if id := a.Timeline.Of[i]; a.Events.Action[i] == snapshot.Alloc && a.Events.Size[i] >= least &&
			a.Freed(id) < backward.End &&
			a.Logits[id] == meaning.NoDetail {
			a.Widest[id] = true
		}
	}
}
