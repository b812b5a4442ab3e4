package classify

import (
	"sort"

	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

// findSizes counts the sizes of what looks like weights: they return as
// gradients, as moments, and halved as autocast's copies.
func findSizes(a *analysis) {
	a.weightSize, a.weightHalf, a.stateSize = map[int64]int{}, map[int64]bool{}, map[int64]bool{}
	for i := range a.Category {
		id := timeline.AllocationID(i)
		if a.Phase[id] == Optimizer && a.outlives(id) {
			a.stateSize[a.t.Requested(id)] = true
		}
		older := a.born(id) < 0
		if a.Phase[id] != Setup && !older {
			continue
		}
		if n := a.t.Requested(id); n > scalar && (a.outlives(id) || !older && a.phaseAt(a.freed(id)) != Setup) {
			a.weightSize[n]++
			a.weightHalf[n/2] = true
		}
	}
}

// findSpare sees what an optimizer worked in when a request of its failed or the
// recording ended, and what so lives as long as its state: by the lines that make
// state, else, after a failure, what is more than two for each weight.
func findSpare(a *analysis) {
	failed := a.last
	if n := len(a.ooms); n > 0 && a.phases[a.ooms[n-1]] == Optimizer {
		failed = a.ooms[n-1]
	} else if a.last == 0 || !a.recorded.allocs || a.phases[a.last-1] != Optimizer {
		return
	}
	first := a.runs[a.run(min(failed, a.last-1))].first
	made := map[int64]int{} // by size, that stay
	var marked bool
	var working, more []timeline.AllocationID
	for i := range a.Category {
		id := timeline.AllocationID(i)
		b := a.born(id)
		if b < 0 || b >= failed || a.Phase[id] != Optimizer || a.freed(id) < failed {
			continue
		}
		n := a.t.Requested(id)
		if made[n]++; b >= first && n > scalar && made[n] > 2*a.weightSize[n] && a.weightSize[n] > 0 {
			more = append(more, id)
		}
		if a.birth(id).Marks&frames.State != 0 {
			marked = true
		} else if b >= first {
			working = append(working, id)
		}
	}
	if a.recorded.allocs {
		more = nil
		if marked {
			more = working
		}
	}
	a.spare = map[timeline.AllocationID]bool{}
	for _, id := range more {
		a.spare[id] = true
	}
}

// sizeClaim recognises what only its size gives away.
func sizeClaim(a *analysis, id timeline.AllocationID) claim {
	if d := a.logits[id]; d != NoDetail {
		if d == scores {
			d = NoDetail
		}
		if sure, ok := a.doubtful[id]; ok {
			return claim{Logits, d, sure}
		}
		return claim{Logits, d, strong + 1}
	}
	if len(a.chunks) > 0 && a.chunks[id] {
		return chunkClaim(a, id)
	}
	if len(a.growing) > 0 && isGrowing(a, id) {
		return claim{KVCache, NoDetail, strong}
	}
	if a.copies[id] && (!a.recorded.native || a.birth(id).Marks&frames.Inductor != 0) {
		return claim{AutocastCopies, NoDetail, strong}
	}
	if len(a.buckets) > 0 && a.buckets[id] {
		return claim{Communication, GradientBucket, plausible + 5}
	}
	if len(a.dataset) > 0 && a.dataset[id] {
		return claim{Inputs, NoDetail, likely + 1}
	}
	if a.IsWorkspaceBySize(id) {
		return claim{Workspace, CuBLAS, strong + 1}
	}
	return claim{}
}

// isGrowing tells whether an allocation is part of a cache that grows.
func isGrowing(a *analysis, id timeline.AllocationID) bool {
	if a.Phase[id] != Generate && a.Phase[id] != Forward {
		return false
	}
	at := a.growing[a.t.Requested(id)]
	i := sort.SearchInts(at, a.born(id)) // the first one it may have seen
	return i < len(at) && goes(a, id) > at[i]
}
