package change

import (
	"fmt"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/timeline"
)

// cacheOff takes away the keys and values that a model caches while it trains.
func (r *rewriter) cacheOff() (string, error) {
	dropped, kept := 0, 0
	r.of(classify.KVCache, func(id timeline.AllocationID) {
		if r.classes.Phase[id] != classify.Forward {
			return
		}
		if until, ok := r.wouldBeSaved(id); ok {
			r.release(id, until)
			kept++
			return
		}
		r.resize(id, 0)
		dropped++
	})
	if dropped+kept == 0 {
		return "", fmt.Errorf("no keys and values that a training step caches were found in the recording")
	}
	how := "Cached keys and values that are copies are not made"
	switch {
	case dropped == 0:
		how = "Keys and values take the place of their copies in the cache, and go with their layer's backward pass"
	case kept > 0:
		how += "; those that took the place of the keys and values themselves go with their layer's backward pass"
	}
	return how + ".", nil
}

// nearby is how many allocations around a copy belong to the same operation.
const nearby = 24

// wouldBeSaved reports whether keys or values that go into the cache would be
// saved for the backward pass without one, and until which event: when what
// they are copied from is as large and goes at once. Else the original stays
// anyway, as a part of one projection of queries, keys and values.
func (r *rewriter) wouldBeSaved(id timeline.AllocationID) (until int, ok bool) {
	born, all := r.BornAt(id), r.Len()
	over := r.BornAt(timeline.AllocationID(min(int(id)+nearby, all-1)))
	for i := int(id) - 1; i >= max(0, int(id)-nearby) && !ok; i-- {
		from := timeline.AllocationID(i)
		life := r.Life(from)
		ok = r.Requested(from) == r.Requested(id) && life.Born >= 0 && born < life.Freed && life.Freed < over
	}
	for i := int(id) - 1; i >= max(0, int(id)-2*nearby) && ok; i-- {
		saved := timeline.AllocationID(i)
		if r.classes.Category[i] == classify.Activations && r.FreedAt(saved) > born {
			return r.FreedAt(saved), r.FreedAt(saved) < r.FreedAt(id)
		}
	}
	return 0, false
}
