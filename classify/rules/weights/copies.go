package weights

import (
	"maps"
	"slices"

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
		for i, id := range a.Allocs(max(run.First, a.Loop), run.End) {
			if n := a.Events.Size[i]; n > phases.Scalar {
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

var CastBySize = &rules.Rule{
	ID: "autocast-cast-by-size",
	Doc: `Made in a forward pass, half as large as a weight whose gradient is computed in 16 bits and converted
right after: the 16-bit copy that autocast makes of the weight. For recordings whose frames don't name the cast.`,
	Signal: meaning.BySize,
	Born:   rules.AnyTime,
	Needs:  []rules.Need{rules.Sizes, rules.Saved},
	Begin: func(a *rules.Facts) rules.Says {
		copies := findCopies(a)
		if !slices.Contains(copies, true) {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			if !copies[id] || a.Recorded.Native && a.Birth(id).Marks&frames.Inductor == 0 {
				return rules.Claim{}
			}
			return rules.As(meaning.AutocastCopies, rules.Strong)
		}
	},
}

// findCopies finds autocast's half-precision copies of weights where no C++
// frame names them. Their gradient is computed in half precision and converted:
// a gradient with half of its bytes freed right after its birth tells which
// sizes were cast, and how many of each in one pass. Where nothing is trained,
// rules.Saved has found them.
func findCopies(a *rules.Facts) []bool {
	sizes, known := rules.Sizes.Of(a), rules.Saved.Of(a).Copies
	if a.Recorded.Native && a.All&frames.Inductor == 0 {
		return known // frames name them
	}
	cast, used := map[int64]int{}, map[timeline.AllocationID]bool{}
	for r := range a.Runs {
		if p := &a.Runs[r]; p.Phase == meaning.Backward {
			for n, count := range converted(a, sizes, p, used) {
				if rules.IsCut(a, p) { // it hasn't come to all of them
					count = max(count, sizes.WeightSize[2*n])
				}
				cast[n] = max(cast[n], count)
			}
		}
	}
	if len(cast) == 0 {
		return known
	}
	copies := slices.Clone(known)
	for r := range a.Runs {
		if a.Runs[r].Phase == meaning.Forward {
			findCopiesIn(a, a.Runs[r], cast, used, copies)
		}
	}
	return copies
}

// converted counts by size the half-precision gradients of a backward pass that
// were converted, and marks the copies that they are of.
func converted(a *rules.Facts, sizes *rules.SizeIndex, p *phases.Run, used map[timeline.AllocationID]bool) map[int64]int {
	out := map[int64]int{}
	for i, id := range a.Allocs(p.First, p.End) {
		n := a.Events.Size[i]
		if n < 1024 || n%2 != 0 || !sizes.WeightHalf[n/2] || a.Freed(id) < p.End {
			continue
		}
		const near = 4 // events until the converted one is gone
		for j := i + 1; j < min(p.End, i+near); j++ {
			if id := a.Timeline.Of[j]; a.Events.Action[j] == snapshot.FreeRequested && id != timeline.NoAllocation &&
				a.Timeline.Requested(id) == n/2 && a.Born(id) > p.First && a.Born(id) < i {
				out[n/2]++
				used[copyUsed(a, a.Born(id), i, p.First)] = true
				break
			}
		}
	}
	return out
}

// copyUsed is the copy of a weight that a backward pass let go of between making a gradient
// and converting it, and of two as large the one made right before the other: a layer
// casts its weight, then what it is applied to, unless that was there before.
func copyUsed(a *rules.Facts, made, converted, pass int) timeline.AllocationID {
	found := timeline.NoAllocation
	for i := converted - 1; i > made; i-- {
		id := a.Timeline.Of[i]
		if a.Events.Action[i] != snapshot.FreeRequested || id == timeline.NoAllocation || a.Born(id) >= pass ||
			a.Timeline.Requested(id) != a.Events.Size[made] {
			continue
		}
		switch {
		case found == timeline.NoAllocation:
			found = id
		case found == id+1, id == found+1:
			return min(found, id)
		default:
			return max(found, id)
		}
	}
	return found
}

// findCopiesIn marks what a forward run made and backward used, where that was as many of a
// size as were converted; else, and before them, as many as were, and as many again once
// these are all gone: several passes may follow each other.
func findCopiesIn(a *rules.Facts, r phases.Run, cast map[int64]int, used map[timeline.AllocationID]bool, copies []bool) {
	own, since := map[int64]int{}, map[int64]int{} // how many were used, and the first birth of those
	for i := r.End - 1; i >= r.First; i-- {
		if n := a.Events.Size[i]; a.Events.Action[i] == snapshot.Alloc && used[a.Timeline.Of[i]] {
			own[n], since[n] = own[n]+1, i
		}
	}
	left := maps.Clone(cast)
	gone := -1 // when those that were found are; before any was
	for i, id := range a.Allocs(r.First, r.End) {
		n := a.Events.Size[i]
		if cast[n] == 0 || a.Freed(id) <= i+8 {
			continue
		}
		if 0 <= gone && gone < i {
			left, gone = maps.Clone(cast), -1
		}
		known := own[n] == cast[n] && a.Freed(id) >= since[n]
		if known && used[id] || !known && left[n] > 0 {
			left[n]--
			copies[id] = true
			gone = max(gone, a.Freed(id))
		}
	}
}
