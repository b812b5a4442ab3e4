package classify

import (
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// findTwins finds copies of all weights that a program makes in the middle of
// its loop, to keep the best ones or an average: one allocation after the other
// has a weight's size and stays, until most of the weights were there, or half of
// them where setup has made all of them twice. Right after a backward pass they
// would be gradients, inside of one or of an optimizer something else; what begins
// as zeros is no copy.
func findTwins(a *analysis) {
	const (
		few   = 8  // weights
		while = 64 // events that a copy is there at least
	)
	a.twins = map[timeline.AllocationID]bool{}
	var all, single int64
	for n, count := range a.weightSize {
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
				a.twins[id] = true
			}
		}
		copies, bytes, seen = copies[:0], 0, map[int64]int{}
	}
	for r := range a.runs {
		run := &a.runs[r]
		flush()
		switch run.phase {
		case Forward, Generate, Data, OtherPhase:
		default:
			continue
		}
		if r > 0 && a.runs[r-1].phase == Backward {
			continue
		}
		for i := max(run.first, a.loop); i < run.end; i++ {
			if a.events.Action[i] != snapshot.Alloc {
				continue
			}
			id, n := a.t.Of[i], a.events.Size[i]
			if n <= scalar {
				continue
			}
			weights := 0 // of this size
			if a.freed(id)-i >= while && a.birth(id).Marks&frames.Filled == 0 {
				weights = a.weightSize[n]
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
}

var copyOfWeights = &Rule{
	ID: "copy-of-weights",
	Doc: `One of a row of allocations, made in the middle of the loop, that have the sizes of most weights and
stay: a copy of the model, as of the best so far or an average. Less sure without C++ frames, where it may be a sum.`,
	Signal: ByLife,
	Born:   anyBirth,
	Needs:  []Need{Lives, Sizes, Runs},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		if len(a.twins) == 0 {
			return nil
		}
		sure := uint8(likely)
		if !a.recorded.native { // or sums of what the program makes of each weight, which begin as zeros
			sure = plausible - 5
		}
		return func(id timeline.AllocationID) claim {
			if !a.twins[id] || a.kept[id] {
				return claim{}
			}
			return as(Weights, sure)
		}
	},
}
