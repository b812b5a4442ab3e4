package weights

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/classify/rules/kvcache"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

var CopyOfWeights = &rules.Rule{
	ID: "copy-of-weights",
	Doc: `One of a row of allocations, made in the middle of the loop, that have the sizes of most weights and
stay: a copy of the model, as of the best so far or an average. Less sure without C++ frames, where it may be a sum, and where
nothing trains, where it may be directions in which an optimizer without gradients tries the weights.`,
	Signal: meaning.ByLife,
	Born:   rules.AnyBirth,
	Needs:  []rules.Need{rules.Sizes, kvcache.Kept},
	Begin: func(a *rules.Facts) rules.Says {
		twins := findTwins(a)
		if len(twins) == 0 {
			return nil
		}
		kept := kvcache.Kept.Of(a)
		copies := rules.As(meaning.Weights, rules.Likely)
		if !a.Recorded.Native || !a.Trains && !a.Updates { // or sums of what is made of each weight; directions to try them in
			copies.Sure = rules.Plausible - 5
		}
		return func(id timeline.AllocationID) rules.Claim {
			if !twins[id] || kept[id] {
				return rules.Claim{}
			}
			return copies
		}
	},
}

// findTwins finds copies of all weights that a program makes in the middle of
// its loop, to keep the best ones or an average: one allocation after the other
// has a weight's size and stays, until most of the weights were there. What begins
// as zeros is no copy.
func findTwins(a *rules.Facts) map[timeline.AllocationID]bool {
	sizes := rules.Sizes.Of(a)
	f := twins{Facts: a, SizeIndex: sizes, all: bytesOfModel(sizes),
		seen: map[int64]int{}, found: map[timeline.AllocationID]bool{}}
	for r := range a.Runs {
		run := &a.Runs[r]
		there := leastThere(a, r)
		if there == a.Last {
			f.flush()
			continue
		}
		for i := max(run.First, a.Loop); i < run.End; i++ {
			if n := a.Events.Size[i]; a.Events.Action[i] == snapshot.Alloc && n > phases.Scalar {
				id := a.Timeline.Of[i]
				f.add(id, n, a.Freed(id)-i >= there && a.Birth(id).Marks&frames.Filled == 0)
			}
		}
	}
	f.flush()
	return f.found
}

// bytesOfModel is what all weights hold, or half of it where setup has made nearly all of
// them twice.
func bytesOfModel(a *rules.SizeIndex) (all int64) {
	var single int64
	for n, count := range a.WeightSize {
		all += n * int64(count)
		single += n * int64(count%2)
	}
	if single*10 < all {
		return (all + single) / 2
	}
	return all
}

// leastThere is for how many events a copy that a run makes is there at least, all of them
// where none can be told: right after a backward pass they may be gradients, whose
// copies go before the next pass, inside of one or of an optimizer something else.
func leastThere(a *rules.Facts, r int) int {
	const while = 64
	if !meaning.HintOf(a.Runs[r].Phase).Is(meaning.Forward, meaning.Generate, meaning.Data, meaning.OtherPhase) {
		return a.Last
	}
	if r == 0 || a.Runs[r-1].Phase != meaning.Backward {
		return while
	}
	if p := a.BackwardAfter(r); p != nil && a.Recorded.Allocs {
		return p.End - a.Runs[r].First
	}
	return a.Last
}

// twins gathers copies of weights in a row.
type twins struct {
	*rules.Facts
	*rules.SizeIndex
	all    int64 // bytes of a model
	copies []timeline.AllocationID
	bytes  int64
	seen   map[int64]int // of them, by size
	found  map[timeline.AllocationID]bool
}

func (f *twins) add(id timeline.AllocationID, n int64, stays bool) {
	weights := f.WeightSize[n]
	if !stays || f.seen[n] == weights {
		f.flush()
	}
	if stays && weights > 0 {
		f.seen[n]++
		f.copies, f.bytes = append(f.copies, id), f.bytes+n
	}
}

// flush ends a row: it is a copy of the model if most of that is there.
func (f *twins) flush() {
	const few = 8 // weights
	if len(f.copies) >= few && f.bytes*10 >= f.all*9 {
		for _, id := range f.copies {
			f.found[id] = true
		}
	}
	f.copies, f.bytes = f.copies[:0], 0
	clear(f.seen)
}
