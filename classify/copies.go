package classify

import (
	"maps"

	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// findCopies finds autocast's half-precision copies of weights where no C++
// frame names them. Their gradient is computed in half precision and converted:
// a gradient with half of its bytes freed right after its birth tells which
// sizes were cast, and how many of each in one pass. Where nothing is trained,
// findSaved has found them.
func findCopies(a *analysis) {
	if a.recorded.native && a.all&frames.Inductor == 0 {
		return // frames name them
	}
	cast := map[int64]int{}
	for r := range a.runs {
		if p := &a.runs[r]; p.phase == Backward {
			for n, count := range converted(a, p) {
				if isCut(a, p) { // it hasn't come to all of them
					count = max(count, a.weightSize[2*n])
				}
				cast[n] = max(cast[n], count)
			}
		}
	}
	if len(cast) == 0 {
		return
	}
	for r := range a.runs {
		if a.runs[r].phase == Forward {
			findCopiesIn(a, a.runs[r], cast)
		}
	}
}

// converted counts by size the half-precision gradients of a backward pass that
// were converted.
func converted(a *analysis, p *run) map[int64]int {
	out := map[int64]int{}
	for i := p.first; i < p.end; i++ {
		if a.events.Action[i] != snapshot.Alloc {
			continue
		}
		n := a.events.Size[i]
		if n < 1024 || n%2 != 0 || a.freed(a.t.Of[i]) < p.end || !a.weightHalf[n/2] {
			continue
		}
		const near = 4 // events until the converted one is gone
		for j := i + 1; j < min(p.end, i+near); j++ {
			if id := a.t.Of[j]; a.events.Action[j] == snapshot.FreeRequested && id != timeline.NoAllocation &&
				a.t.Requested(id) == n/2 && a.born(id) > p.first && a.born(id) < i {
				out[n/2]++
				break
			}
		}
	}
	return out
}

// findCopiesIn marks as many allocations of a forward run as were converted
// back, and as many again once these are all gone: several passes may follow each
// other.
func findCopiesIn(a *analysis, r run, cast map[int64]int) {
	left := maps.Clone(cast)
	gone := -1 // when those that were found are; before any was
	for i := r.first; i < r.end; i++ {
		if a.events.Action[i] != snapshot.Alloc {
			continue
		}
		id, n := a.t.Of[i], a.events.Size[i]
		f := a.freed(id)
		if cast[n] == 0 || f <= i+8 {
			continue
		}
		if 0 <= gone && gone < i {
			left, gone = maps.Clone(cast), -1
		}
		if left[n] > 0 {
			left[n]--
			a.copies[id] = true
			gone = max(gone, f)
		}
	}
}

var castBySize = &Rule{
	ID: "autocast-cast-by-size",
	Doc: `Made in a forward pass, half as large as a weight whose gradient is computed in 16 bits and converted
right after: the 16-bit copy that autocast makes of the weight. For recordings whose frames don't name the cast.`,
	Signal: BySize,
	Born:   anyTime,
	Needs:  []Need{Sizes, Lives},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			if !a.copies[id] || a.recorded.native && a.birth(id).Marks&frames.Inductor == 0 {
				return claim{}
			}
			return as(AutocastCopies, strong)
		}
	},
}
