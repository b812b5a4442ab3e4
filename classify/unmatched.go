package classify

import (
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

// viewsBuckets tells whether gradients are views of DDP's buckets: then backward
// makes next to none that last.
func viewsBuckets(a *analysis) bool {
	if !a.trains || a.all&frames.Bucket == 0 {
		return false
	}
	var gradients, buckets int64
	for n, count := range a.gradientSize {
		gradients += n * int64(count)
	}
	for i := range a.Category {
		id := timeline.AllocationID(i)
		if a.birth(id).Marks&frames.Bucket != 0 && a.outlives(id) {
			buckets += a.t.Requested(id)
		}
	}
	return buckets > 0 && gradients*4 < buckets
}

// findUnmatched looks, in training without stacks, at what stays and isn't the
// size of any gradient: DDP's buckets, whose sum is that of all gradients and which
// are made in one go, once the first pass is over, and a data set on the GPU, a single large block among weights that all have
// gradients.
func findUnmatched(a *analysis) {
	a.bucketViews = viewsBuckets(a)
	a.buckets, a.dataset = map[timeline.AllocationID]bool{}, map[timeline.AllocationID]bool{}
	if a.recorded.allocs || !a.trains {
		return
	}
	var gradients int64
	for n, count := range a.gradientSize {
		gradients += n * int64(count)
	}
	var matched, unmatched int64
	var alone []timeline.AllocationID
	late := map[int][]timeline.AllocationID{} // by run
	for i := range a.Category {
		id := timeline.AllocationID(i)
		n := a.t.Requested(id)
		if !a.outlives(id) || n <= scalar || a.born(id) < 0 {
			continue
		}
		switch p := a.Phase[id]; {
		case p == Setup && a.gradientSize[n] > 0:
			matched += n
		case p == Setup:
			unmatched += n
			if a.weightSize[n] == 1 && n >= 1<<20 {
				alone = append(alone, id)
			}
		case p == Forward || p == OtherPhase || p == Data:
			late[a.run(a.born(id))] = append(late[a.run(a.born(id))], id)
		}
	}
	var single int64
	for _, id := range alone {
		single += a.t.Requested(id)
	}
	if len(alone) <= 2 && matched > 0 && (unmatched-single)*10 < matched && !freezes(a) {
		for _, id := range alone {
			a.dataset[id] = true
		}
	}
	first := a.backwardAfter(0)
	var buckets [][]timeline.AllocationID
	for r, ids := range late {
		if first == nil || a.runs[r].first < first.first {
			continue // buckets are made anew after the first pass
		}
		if a.backwardAfter(a.run(first.end)) != a.backwardAfter(r) && isLastBatch(a, r) {
			continue // what the last pass was given and came to is still there, too
		}
		var sum int64
		for _, id := range ids {
			sum += a.t.Requested(id)
		}
		if d := max(sum-gradients, gradients-sum); len(ids) > 1 && d < gradients/100 && joinsGradients(a, ids) {
			buckets = append(buckets, ids)
		}
	}
	if len(buckets) == 1 { // they are made anew once
		for _, id := range buckets[0] {
			a.buckets[id] = true
		}
	}
}

// joinsGradients tells whether allocations may be DDP's buckets: the reducer makes
// them in one go (Reducer::initialize_buckets, torch/csrc/distributed/c10d/reducer.cpp),
// and most hold several gradients. What a forward pass keeps comes one by one, and
// copies of weights have their sizes.
func joinsGradients(a *analysis, ids []timeline.AllocationID) bool {
	alone := 0
	for k, id := range ids {
		if k > 0 && a.born(id) != a.born(ids[k-1])+1 {
			return false
		}
		if a.gradientSize[a.t.Requested(id)] > 0 {
			alone++
		}
	}
	return alone*2 < len(ids)
}

// freezes tells whether some weights have no gradients, though others of their
// size do: then a table without one may be a weight, too.
func freezes(a *analysis) bool {
	const large = 64 << 10 // statistics of layers are smaller, and have none anyway
	for n, weights := range a.weightSize {
		if gradients := a.gradientSize[n]; n >= large && 0 < gradients && gradients < weights {
			return true
		}
	}
	return false
}

// isLastBatch tells whether at most one backward pass comes after a run.
func isLastBatch(a *analysis, r int) bool {
	p := a.backwardAfter(r)
	return p == nil || a.backwardAfter(a.run(p.end)) == nil
}

var bucketBySize = &Rule{
	ID: "ddp-bucket-by-size",
	Doc: `Made in one go once the first pass is over, with others whose sum is that of all gradients, in a
recording without stacks: one of DDP's buckets.`,
	Signal: BySize,
	Born:   anyTime,
	Needs:  []Need{NoStacks, Training, Sizes},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		if len(a.buckets) == 0 {
			return nil
		}
		return func(id timeline.AllocationID) claim {
			if !a.buckets[id] {
				return claim{}
			}
			return kindOf(Communication, GradientBucket, plausible+5)
		}
	},
}

var dataSetBySize = &Rule{
	ID: "data-set-by-size",
	Doc: `A single large block that setup leaves among weights that all have gradients, and that has none, in a
recording without stacks: a data set on the GPU.`,
	Signal: BySize,
	Born:   anyTime,
	Needs:  []Need{NoStacks, Training, Sizes},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		if len(a.dataset) == 0 {
			return nil
		}
		return func(id timeline.AllocationID) claim {
			if !a.dataset[id] {
				return claim{}
			}
			return as(Inputs, likely+1)
		}
	},
}
