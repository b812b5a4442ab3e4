package logits

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// markWidest marks what may be logits though no loss shows, as where a program
// computes with each token's own or with a part of them at a time: a few
// requests of a pass that are far larger than all others.
func markWidest(a *rules.Facts, p rules.Pass) {
	const few, far = 16, 3
	var widest [few + 1]int64 // bytes, the largest first
	all := 0
	each := func(f func(id timeline.AllocationID, n int64)) {
		for i := p.First; i < p.End; i++ {
			n := a.Events.Size[i]
			if a.Events.Action[i] != snapshot.Alloc || n < 1<<16 {
				continue
			}
			if id := a.Timeline.Of[i]; a.Logits[id] == meaning.NoDetail && !a.IsWorkspaceBySize(id) {
				f(id, n)
			}
		}
	}
	each(func(_ timeline.AllocationID, n int64) {
		all++
		i := len(widest)
		for ; i > 0 && widest[i-1] < n; i-- {
			if i < len(widest) {
				widest[i] = widest[i-1]
			}
		}
		if i < len(widest) {
			widest[i] = n
		}
	})
	for k := 1; k <= few && widest[k] > 0 && k*5 <= all; k++ {
		if n := widest[k-1]; n >= far*widest[k] {
			each(func(id timeline.AllocationID, m int64) {
				if m >= n {
					a.Widest[id] = true
				}
			})
			markWidestIn(a, p.Backward, n)
			return
		}
	}
}

// markWidestIn marks what may be the gradients of such logits: as large as they are,
// and gone by the end of the backward pass.
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
