package phases

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// rootsByWeights finds backward passes that free nothing of what forward saved,
// because the graph is retained or the program still holds what was saved: the
// shortest lives of lone numbers during which most of the weights' sizes are
// allocated again, as their gradients.
//
// complexity: one search from the end, bounded in several ways
func (a rootGradients) rootsByWeights() []root {
	const large, shortest, most = 4096, 12, 1000
	start := a.firstShortLived()
	weights := map[int64]bool{}
	for id := range timeline.AllocationID(a.Timeline.Len()) {
		if b := a.Born(id); a.Outlives(id) && (b < 0 || b < start) && a.Timeline.Requested(id) >= large {
			weights[a.Timeline.Requested(id)] = true
		}
	}
	if trained := a.trainedSizes(large); len(trained) > 1 {
		weights = trained
	} else if len(weights) < 3 {
		return nil
	}
	layers := a.ofLayers()
	var out []root
	kept := false                                          // one of the passes leaves gradients
	tried, budget := 0, 32*a.Last                          // events looked at
	for i := a.Last - 1; i >= start && tried < most; i-- { // the later of nested ones is the shorter
		id := a.Timeline.Of[i]
		if a.Events.Action[i] != snapshot.Alloc || a.Timeline.Requested(id) > Scalar {
			continue
		}
		f := a.Freed(id)
		if f >= a.Last || f-i < shortest || a.stepsWithin(i, f) || len(out) > 0 && f >= out[len(out)-1].first ||
			layers[a.surroundings(i)] {
			continue
		}
		if tried++; f-i > budget {
			break
		}
		budget -= f - i
		seen, left := map[int64]bool{}, map[int64]bool{}
		for k := i; k < f; k++ {
			if n := a.Events.Size[k]; a.Events.Action[k] == snapshot.Alloc && weights[n] {
				seen[n] = true
				if a.Freed(a.Timeline.Of[k]) > f || a.Covered[k] != 0 {
					left[n] = true
				}
			}
		}
		if len(seen)*10 >= len(weights)*7 {
			out = append(out, root{i, f, int64(len(seen))})
			kept = kept || len(left)*2 > len(seen)
		}
	}
	if !kept { // as many tokens as a layer is wide: what it computes is as large as its weights
		return nil
	}
	for l, r := 0, len(out)-1; l < r; l, r = l+1, r-1 {
		out[l], out[r] = out[r], out[l]
	}
	return out
}

// trainedSizes are the sizes of what optimizers made in their steps and kept: of
// the weights that they train.
func (a rootGradients) trainedSizes(least int64) map[int64]bool {
	out := map[int64]bool{}
	for id := a.Timeline.Older(); id < a.Timeline.Len(); id++ {
		id := timeline.AllocationID(id)
		if n := a.Timeline.Requested(id); n >= least && a.Covered[a.Born(id)] == meaning.HintOf(meaning.Optimizer) &&
			a.Outlives(id) {
			out[n] = true
		}
	}
	return out
}

// withFirst puts a backward pass before the others in whose middle the trace
// begins: blocks older than the trace are freed bit by bit while gradients are
// made, up to the free of a number that is older, too.
//
// complexity: every condition is another way in which the beginning is no backward pass
func (a rootGradients) withFirst(roots []root) []root {
	const (
		few, least = 8, 8 // frees without an allocation in between; freed blocks of the shortest rest
		near       = 64   // events
	)
	gradients := a.gradientKinds(roots)
	limit := a.Last
	if len(roots) > 0 {
		limit = roots[0].first
	}
	steps := 0
	for _, w := range a.Windows {
		if w.phase == meaning.Optimizer && !w.fused {
			limit = min(limit, w.first)
			steps++
		}
	}
	if len(roots) == 0 && steps > 1 {
		return nil // the others weren't seen
	}
	end, together, spread, all, made := -1, 0, 0, 0, 0
	last, widest := 0, near // event of the last such free; most events between two
	for i := range limit {
		id := a.Timeline.Of[i]
		if spread >= least && i-last > 16*widest {
			break // the next pass
		}
		switch {
		case id == timeline.NoAllocation:
		case a.Events.Action[i] == snapshot.Alloc:
			if together > 0 && together <= few {
				spread += together
				end = i
			}
			together = 0
			if gradients[a.Timeline.Requested(id)] {
				made++
			}
		case a.Events.Action[i] == snapshot.FreeRequested && a.Born(id) < 0 && a.Timeline.Requested(id) > Scalar:
			together++
			all++
			last, widest = i, max(widest, i-last)
		}
	}
	if spread < least || spread*3 < all || made*8 < spread {
		return roots
	}
	if len(roots)+steps == 0 && (a.Last-end)*16 > a.Last {
		return nil // nothing says that there are any, unless it is all that is recorded
	}
	for i := end; i < min(end+near, limit); i++ {
		if id := a.Timeline.Of[i]; a.Events.Action[i] == snapshot.FreeRequested && id != timeline.NoAllocation && a.Born(id) < 0 {
			if end = i; a.Timeline.Requested(id) <= Scalar {
				break
			}
		}
	}
	return append([]root{{0, end, int64(all)}}, roots...)
}

// gradientKinds are the sizes of what backward passes leave; of what is there
// throughout, when they leave next to nothing.
func (a rootGradients) gradientKinds(roots []root) map[int64]bool {
	const large, some = 4096, 3
	out := map[int64]bool{}
	for _, r := range roots {
		for i := r.first; i < r.end; i++ {
			if n := a.Events.Size[i]; a.Events.Action[i] == snapshot.Alloc && n >= large && a.Freed(a.Timeline.Of[i]) > r.end {
				out[n] = true
			}
		}
	}
	for id := range timeline.AllocationID(a.Timeline.Older()) {
		if len(roots) > 0 && len(out) >= some {
			break
		}
		if n := a.Timeline.Requested(id); n >= large && a.Outlives(id) {
			out[n] = true
		}
	}
	return out
}
