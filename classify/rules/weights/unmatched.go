package weights

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

// viewsBuckets tells whether gradients are views of DDP's buckets: then backward
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
// large block among weights that all have gradients. It also tells whether gradients
// are views of DDP's buckets.
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
		case a.WeightSize[n] == 1 && n >= 1<<20:
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

// findBuckets finds DDP's buckets, in training without stacks: what stays of a run
// after the first pass, and whose sum is that of all gradients.
func findBuckets(a *rules.Facts) map[timeline.AllocationID]bool {
	var gradients int64
	for n, count := range a.GradientSize {
		gradients += n * int64(count)
	}
	late := map[int][]timeline.AllocationID{} // by run
	for i := range a.Category {
		id := timeline.AllocationID(i)
		if b := a.Born(id); phases.OneOf(phases.HintOf(a.Phase[id]), meaning.Forward, meaning.OtherPhase, meaning.Data) &&
			a.Outlives(id) && a.Timeline.Requested(id) > phases.Scalar && b >= 0 {
			late[a.Run(b)] = append(late[a.Run(b)], id)
		}
	}
	first := a.BackwardAfter(0)
	var buckets []timeline.AllocationID
	for r, ids := range late {
		if first == nil || a.Runs[r].First < first.First {
			continue // buckets are made anew after the first pass
		}
		if a.BackwardAfter(a.Run(first.End)) != a.BackwardAfter(r) && isLastBatch(a, r) {
			continue // what the last pass was given and came to is still there, too
		}
		var sum int64
		for _, id := range ids {
			sum += a.Timeline.Requested(id)
		}
		if d := max(sum-gradients, gradients-sum); len(ids) < 2 || d >= gradients/100 || !joinsGradients(a, ids) {
			continue
		}
		if buckets != nil {
			return nil // they are made anew once
		}
		buckets = ids
	}
	found := map[timeline.AllocationID]bool{}
	for _, id := range buckets {
		found[id] = true
	}
	return found
}

// joinsGradients tells whether allocations may be DDP's buckets: the reducer makes
// them in one go (Reducer::initialize_buckets, torch/csrc/distributed/c10d/reducer.cpp),
// and most hold several gradients. What a forward pass keeps comes one by one, and
// copies of weights have their sizes.
func joinsGradients(a *rules.Facts, ids []timeline.AllocationID) bool {
	alone := 0
	for k, id := range ids {
		if k > 0 && a.Born(id) != a.Born(ids[k-1])+1 {
			return false
		}
		if a.GradientSize[a.Timeline.Requested(id)] > 0 {
			alone++
		}
	}
	return alone*2 < len(ids)
}

// freezes tells whether some weights have no gradients, though others of their
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

// isLastBatch tells whether at most one backward pass comes after a run.
func isLastBatch(a *rules.Facts, r int) bool {
	p := a.BackwardAfter(r)
	return p == nil || a.BackwardAfter(a.Run(p.End)) == nil
}

var BucketBySize = &rules.Rule{
	ID: "ddp-bucket-by-size",
	Doc: `Made in one go once the first pass is over, with others whose sum is that of all gradients, in a
recording without stacks: one of DDP's buckets.`,
	Signal: meaning.BySize,
	Born:   rules.AnyTime,
	Needs:  []rules.Need{rules.NoStacks, rules.Training, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		buckets := findBuckets(a)
		if len(buckets) == 0 {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			if !buckets[id] {
				return rules.Claim{}
			}
			return rules.KindOf(meaning.Communication, meaning.GradientBucket, rules.Plausible+5)
		}
	},
}

var DataSetBySize = &rules.Rule{
	ID: "data-set-by-size",
	Doc: `A single large block that setup leaves among weights that all have gradients, and that has none, in a
recording without stacks: a data set on the GPU.`,
	Signal: meaning.BySize,
	Born:   rules.AnyTime,
	Needs:  []rules.Need{rules.NoStacks, rules.Training, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		if len(a.Dataset) == 0 {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			if !a.Dataset[id] {
				return rules.Claim{}
			}
			return rules.As(meaning.Inputs, rules.Likely+1)
		}
	},
}
