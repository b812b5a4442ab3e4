package classify

import (
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// rootsByWeights finds backward passes that free nothing of what forward saved,
// because the graph is retained or the program still holds what was saved: the
// shortest lives of lone numbers during which most of the weights' sizes are
// allocated again, as their gradients.
func (a *analysis) rootsByWeights() []root {
	const large, shortest, most = 4096, 12, 1000
	start := a.firstShortLived()
	weights := map[int64]bool{}
	for id := range timeline.AllocationID(a.t.Len()) {
		if b := a.born(id); a.outlives(id) && (b < 0 || b < start) && a.t.Requested(id) >= large {
			weights[a.t.Requested(id)] = true
		}
	}
	if trained := a.trainedSizes(large); len(trained) > 1 {
		weights = trained
	} else if len(weights) < 3 {
		return nil
	}
	var out []root
	tried, budget := 0, 32*a.last                          // events looked at
	for i := a.last - 1; i >= start && tried < most; i-- { // the later of nested ones is the shorter
		id := a.t.Of[i]
		if a.events.Action[i] != snapshot.Alloc || a.t.Requested(id) > scalar {
			continue
		}
		f := a.freed(id)
		if f >= a.last || f-i < shortest || a.stepsWithin(i, f) || len(out) > 0 && f >= out[len(out)-1].first {
			continue
		}
		if tried++; f-i > budget {
			break
		}
		budget -= f - i
		seen := map[int64]bool{}
		for k := i; k < f; k++ {
			if n := a.events.Size[k]; a.events.Action[k] == snapshot.Alloc && weights[n] {
				seen[n] = true
			}
		}
		if len(seen)*10 >= len(weights)*7 {
			out = append(out, root{i, f, int64(len(seen))})
		}
	}
	for l, r := 0, len(out)-1; l < r; l, r = l+1, r-1 {
		out[l], out[r] = out[r], out[l]
	}
	return out
}

// trainedSizes are the sizes of what optimizers made in their steps and kept: of
// the weights that they train.
func (a *analysis) trainedSizes(least int64) map[int64]bool {
	out := map[int64]bool{}
	for id := a.t.Older(); id < a.t.Len(); id++ {
		id := timeline.AllocationID(id)
		if n := a.t.Requested(id); n >= least && a.covered[a.born(id)] == hintOf(Optimizer) && a.outlives(id) {
			out[n] = true
		}
	}
	return out
}
