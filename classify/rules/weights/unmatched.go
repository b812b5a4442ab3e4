package weights

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

// viewsBuckets reports whether gradients are views of DDP's buckets: then backward
// makes next to none that last.
func viewsBuckets(a *rules.Facts) bool {
	if !a.Trains || a.All&frames.Bucket == 0 {
		return false
	}
	var gradients, buckets int64
	for n, count := range a.GradientSize {
		gradients += n * int64(count)
	}
	for i := range a.Category {
		id := timeline.AllocationID(i)
		if a.Birth(id).Marks&frames.Bucket != 0 && a.Outlives(id) {
			buckets += a.Timeline.Requested(id)
		}
	}
	return buckets > 0 && gradients*4 < buckets
}

// FindUnmatched looks, in training without stacks, for a data set on the GPU: a single
// large block among weights that all have gradients. It also reports whether gradients
// are views of DDP's buckets.
//
// complexity: conditions on one block, then on all of them.
func FindUnmatched(a *rules.Facts) {
	a.BucketViews, a.Dataset = viewsBuckets(a), map[timeline.AllocationID]bool{}
	if a.Recorded.Allocs || !a.Trains {
		return
	}
	var matched, unmatched, single int64
	var alone []timeline.AllocationID
	for i := range a.Category {
		id := timeline.AllocationID(i)
		n := a.Timeline.Requested(id)
		switch {
		case a.Phase[id] != meaning.Setup || !a.Outlives(id) || n <= phases.Scalar || a.Born(id) < 0:
		case a.GradientSize[n] > 0:
			matched += n
		case a.WeightSize[n] == 1 && n >= 1<<20 && !isMaster(a, n):
			alone, single = append(alone, id), single+n
		default:
			unmatched += n
		}
	}
	if len(alone) <= 2 && matched > 0 && unmatched*10 < matched && !freezes(a) {
		for _, id := range alone {
			a.Dataset[id] = true
		}
	}
}

// freezes reports whether some weights have no gradients, though others of their
// size do: then a table without one may be a weight, too.
func freezes(a *rules.Facts) bool {
	const large = 64 << 10 // statistics of layers are smaller, and have none anyway
	for n, weights := range a.WeightSize {
		if gradients := a.GradientSize[n]; n >= large && 0 < gradients && gradients < weights {
			return true
		}
	}
	return false
}
