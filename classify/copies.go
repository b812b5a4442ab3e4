package classify

import (
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// findCopies finds autocast's half-precision copies of weights where no C++
// frame names them: in each forward pass every weight of a product comes back
// with half its bytes.
func (a *analysis) findCopies() {
	a.copies = map[timeline.AllocationID]bool{}
	if !a.trains || len(a.weightSize) == 0 {
		return
	}
	for r := range a.runs {
		if a.runs[r].phase == Forward {
			a.findCopiesIn(a.runs[r])
		}
	}
}

func (a *analysis) findCopiesIn(r run) {
	born := map[int64][]timeline.AllocationID{}
	for i := r.first; i < r.end; i++ {
		if a.events.Action[i] != snapshot.Alloc {
			continue
		}
		id, n := a.t.Of[i], a.events.Size[i]
		if a.weightHalf[n] && a.freed(id) > i+8 {
			born[n] = append(born[n], id)
		}
	}
	var there, all int64
	for n, count := range a.weightSize {
		if n < 4096 || n%2 != 0 {
			continue
		}
		all += n * int64(count)
		there += n * int64(min(count, len(born[n/2])))
	}
	if there*5 < all*2 {
		return
	}
	for n, ids := range born {
		for k, id := range ids {
			if k < a.weightSize[2*n] || len(ids) <= a.weightSize[2*n] {
				a.copies[id] = true
			}
		}
	}
}
