package phases

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// PassUnderWay finds the backward pass in whose middle the recording begins.
var PassUnderWay = &Signal{
	ID: "pass-under-way",
	Doc: `Blocks older than the recording are freed bit by bit while gradients are made, up to the free of a number that is
older, too: the recording begins in the middle of a backward pass. Without any other pass or step to compare with, it must last
nearly to the end of the recording.`,
	Needs: []Need{NoStacks},
	Find:  func(f *facts) found { return found{roots: passUnderWay(f)} },
}

// passUnderWay gives that pass, before all others.
func passUnderWay(a *facts) []root {
	const (
		few, least = 8, 8 // frees without an allocation in between; freed blocks of the shortest rest
		near       = 64   // events
	)
	gradients := gradientKinds(a)
	limit := a.Last
	if len(a.roots) > 0 {
		limit = a.roots[0].first
	}
	steps := 0
	for _, w := range a.Windows {
		if w.phase == meaning.Optimizer && !w.fused {
			limit = min(limit, w.first)
			steps++
		}
	}
	if len(a.roots) == 0 && steps > 1 {
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
		return nil
	}
	if len(a.roots)+steps == 0 && (a.Last-end)*16 > a.Last {
		return nil // nothing says that there are any, unless it is all that is recorded
	}
	for i, id := range a.frees(end, limit) {
		if i >= end+near {
			break
		}
		if a.Born(id) < 0 {
			if end = i; a.Timeline.Requested(id) <= Scalar {
				break
			}
		}
	}
	return []root{{first: 0, end: end, released: int64(all)}}
}

// gradientKinds are the sizes of what backward passes leave; of what is there throughout, when they leave next to nothing.
func gradientKinds(a *facts) map[int64]bool {
	const large, some = 4096, 3
	out := map[int64]bool{}
	for _, r := range a.roots {
		for i := range a.allocs(r.first, r.end) {
			if n := a.Events.Size[i]; n >= large && a.Freed(a.Timeline.Of[i]) > r.end {
				out[n] = true
			}
		}
	}
	for id := range timeline.AllocationID(a.Timeline.Older()) {
		if len(a.roots) > 0 && len(out) >= some {
			break
		}
		if n := a.Timeline.Requested(id); n >= large && a.Outlives(id) {
			out[n] = true
		}
	}
	return out
}
