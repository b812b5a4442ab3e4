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
func markWidest(a *rules.Facts, p rules.Pass) {
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
func markWidestIn(a *rules.Facts, backward *phases.Run, least int64) {
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

// markEach marks, without stacks, the logits of a loss for each word or row: after several
// requests of one size, which is a multiple of the number of words, nll_loss runs. It makes
// two scalars.
//
// complexity: three walks, and what a size must be to be that of logits.
//
//worth:off
func markEach(a *rules.Facts, p rules.Pass) {
	const several, large = 4, 1 << 16
	if a.Recorded.Allocs || p.Backward == nil {
		return
	}
	losses := map[int64]int{}
	for i := p.First; i < p.End; i++ {
		if n := a.Events.Size[i]; a.Events.Action[i] == snapshot.Alloc && n >= large && !a.IsWorkspaceBySize(a.Timeline.Of[i]) &&
			scalarsAfter(a, i, p.End) {
			losses[n]++
		}
	}
	for n, count := range losses {
		if count < several || a.WeightSize[n] > 0 || !hasWords(a, n) {
			delete(losses, n)
		}
	}
	for i := p.First; i < p.Backward.End && len(losses) > 0; i++ {
		id, n := a.Timeline.Of[i], a.Events.Size[i]
		if a.Events.Action[i] == snapshot.Alloc && a.Logits[id] == meaning.NoDetail && losses[n] > 0 {
			a.Logits[id], a.Doubtful[id] = meaning.LogitsCopy, rules.Plausible
		}
	}
}
