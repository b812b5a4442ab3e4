package weights

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

var CopyOfWeights = &rules.Rule{
	ID: "copy-of-weights",
	Doc: `One of a row of allocations, made in the middle of the loop, that have the sizes of most weights and
stay: a copy of the model, as of the best so far or an average. Less sure without C++ frames, where it may be a sum.
Where nothing trains and most go again they are temporary: directions in which an optimizer without gradients tries the weights.`,
	Signal: meaning.ByLife,
	Born:   rules.AnyBirth,
	Needs:  []rules.Need{rules.Lives, rules.Sizes, rules.Runs},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		twins := findTwins(a)
		if len(twins) == 0 {
			return nil
		}
		copies := rules.As(meaning.Weights, rules.Likely)
		switch {
		case !a.Trains && !a.Updates && mostGo(a, twins):
			copies = rules.As(meaning.Temporary, rules.Plausible) // directions in which the weights are tried
		case !a.Recorded.Native: // or sums of what the program makes of each weight, which begin as zeros
			copies.Sure = rules.Plausible - 5
		}
		return func(id timeline.AllocationID) rules.Claim {
			if !twins[id] || a.Kept[id] {
				return rules.Claim{}
			}
			return copies
		}
	},
}

// mostGo reports whether most of some allocations go before the program is over.
func mostGo(a *rules.Facts, ids map[timeline.AllocationID]bool) bool {
	gone := 0
	for id := range ids {
		if !a.Outlives(id) {
			gone++
		}
	}
	return gone*2 > len(ids)
}

// findTwins finds copies of all weights that a program makes in the middle of
// its loop, to keep the best ones or an average: one allocation after the other
// has a weight's size and stays, until most of the weights were there, or half of
// them where setup has made all of them twice. Right after a backward pass they
// may be gradients, inside of one or of an optimizer something else; what begins
// as zeros is no copy.
//
// complexity: each condition ends a row of copies or excludes something else.
func findTwins(a *rules.Facts) map[timeline.AllocationID]bool {
	const (
		few   = 8  // weights
		while = 64 // events that a copy is there at least
	)
	twins := map[timeline.AllocationID]bool{}
	var all, single int64
	for n, count := range a.WeightSize {
		all += n * int64(count)
		single += n * int64(count%2)
	}
	if single*10 < all { // nearly all there is is there twice
		all = (all + single) / 2
	}
	var copies []timeline.AllocationID
	var bytes int64
	seen := map[int64]int{}
	flush := func() {
		if len(copies) == 0 {
			return
		}
		if len(copies) >= few && bytes*10 >= all*9 {
			for _, id := range copies {
				twins[id] = true
			}
		}
		copies, bytes, seen = copies[:0], 0, map[int64]int{}
	}
	for r := range a.Runs {
		run := &a.Runs[r]
		there := while                                      // events
		if r > 0 && a.Runs[r-1].Phase == meaning.Backward { // gradients' copies go before the next pass
			if p := a.BackwardAfter(r); p != nil && a.Recorded.Allocs {
				there = p.End - run.First
			} else {
				there = a.Last
			}
		}
		if there == a.Last || !meaning.HintOf(run.Phase).Is(meaning.Forward, meaning.Generate, meaning.Data, meaning.OtherPhase) {
			flush()
			continue
		}
		for i := max(run.First, a.Loop); i < run.End; i++ {
			if a.Events.Action[i] != snapshot.Alloc {
				continue
			}
			id, n := a.Timeline.Of[i], a.Events.Size[i]
			if n <= phases.Scalar {
				continue
			}
			weights := 0 // of this size
			if a.Freed(id)-i >= there && a.Birth(id).Marks&frames.Filled == 0 {
				weights = a.WeightSize[n]
			}
			if weights == 0 || seen[n] == weights {
				flush()
			}
			if weights == 0 {
				continue
			}
			seen[n]++
			copies, bytes = append(copies, id), bytes+n
		}
	}
	flush()
	return twins
}
