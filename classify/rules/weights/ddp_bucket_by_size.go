package weights

import (
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/classify/rules/older"
	"github.com/vramscope/vramscope/timeline"
)

var BucketBySize = &rules.Rule{
	ID: "ddp-bucket-by-size",
	Doc: `Made in one go once the first pass is over, with others whose sum is that of all gradients, in a
recording without stacks: one of DDP's buckets.`,
	Signal: meaning.BySize,
	Born:   rules.AnyTime,
	Needs:  []rules.Need{rules.NoStacks, rules.Training, older.Gradients},
	Begin: func(a *rules.Facts) rules.Says {
		return rules.Among(findBuckets(a), rules.KindOf(meaning.Communication, meaning.GradientBucket, rules.Plausible+5))
	},
}

// findBuckets finds DDP's buckets: what stays of what is made at once after the first
// backward pass, where its sum is that of all gradients. They are made anew once.
func findBuckets(a *rules.Facts) map[timeline.AllocationID]bool {
	single := older.Gradients.Of(a).GradientSize
	var gradients, sum int64
	for n, count := range single {
		gradients += n * int64(count)
	}
	var found, group []timeline.AllocationID
	times := 0
	flush := func() {
		if d := max(sum-gradients, gradients-sum); d < gradients/100 && joinsGradients(a, single, group) {
			found, times = slices.Clone(group), times+1
		}
		group, sum = group[:0], 0
	}
	for id := a.Timeline.BornSince(a.BackwardAfter(0).End); int(id) < a.Timeline.Len(); id++ {
		stays := meaning.HintOf(a.Phase[id]).Is(meaning.Forward, meaning.OtherPhase, meaning.Data) && a.Outlives(id) &&
			a.Timeline.Requested(id) > phases.Scalar
		if n := len(group); n > 0 && (!stays || a.Born(id) != a.Born(group[n-1])+1) {
			flush()
		}
		if stays {
			group, sum = append(group, id), sum+a.Timeline.Requested(id)
		}
	}
	if flush(); times != 1 {
		return nil
	}
	buckets := map[timeline.AllocationID]bool{}
	for _, id := range found {
		buckets[id] = true
	}
	return buckets
}

// joinsGradients reports whether allocations may be DDP's buckets (Reducer::initialize_buckets,
// torch/csrc/distributed/c10d/reducer.cpp): most hold several gradients. Copies of weights have
// the sizes of single ones.
func joinsGradients(a *rules.Facts, single map[int64]int, ids []timeline.AllocationID) bool {
	alone := 0
	for _, id := range ids {
		if single[a.Timeline.Requested(id)] > 0 {
			alone++
		}
	}
	return len(ids) > 1 && alone*2 < len(ids)
}
