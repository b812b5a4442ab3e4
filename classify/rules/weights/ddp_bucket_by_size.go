package weights

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var BucketBySize = &rules.Rule{
	ID: "ddp-bucket-by-size",
	Doc: `Made in one go once the first pass is over, with others whose sum is that of all gradients, in a
recording without stacks: one of DDP's buckets.`,
	Signal: meaning.BySize,
	Born:   rules.AnyTime,
	Needs:  []rules.Need{rules.NoStacks, rules.Training, rules.Sizes},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return rules.Among(findBuckets(a), rules.KindOf(meaning.Communication, meaning.GradientBucket, rules.Plausible+5))
	},
}

// findBuckets finds DDP's buckets, in training without stacks: what stays of a run
// after the first pass, and whose sum is that of all gradients.
//
// complexity: each condition excludes something else that is made late and outlives its pass.
func findBuckets(a *rules.Facts) map[timeline.AllocationID]bool {
	var gradients int64
	for n, count := range a.GradientSize {
		gradients += n * int64(count)
	}
	late := map[int][]timeline.AllocationID{} // by run
	for i := range a.Category {
		id := timeline.AllocationID(i)
		if b := a.Born(id); meaning.HintOf(a.Phase[id]).Is(meaning.Forward, meaning.OtherPhase, meaning.Data) &&
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

// joinsGradients reports whether allocations may be DDP's buckets: the reducer makes
// them at once (Reducer::initialize_buckets, torch/csrc/distributed/c10d/reducer.cpp),
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
