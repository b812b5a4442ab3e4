package rules

import (
	"iter"
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Allocs are the events from one up to another that allocate, with what they make.
func (f *Facts) Allocs(from, to int) iter.Seq2[int, timeline.AllocationID] {
	return func(yield func(int, timeline.AllocationID) bool) {
		for i := from; i < to; i++ {
			if f.Events.Action[i] == snapshot.Alloc && !yield(i, f.Timeline.Of[i]) {
				return
			}
		}
	}
}

// OutlivesPass reports whether what was born in backward is there after it.
func OutlivesPass(a *Facts, id timeline.AllocationID) bool {
	r := a.Run(a.Born(id))
	return r >= 0 && a.Freed(id) >= a.Runs[r].End
}

// IsCut reports whether a backward pass was cut off, by a failure or where the
// recording ends: it hasn't come to what was saved first.
func IsCut(a *Facts, pass *phases.Run) bool {
	return pass.End >= a.Last || a.FailedBetween(pass.First-1, pass.End)
}

// BeforeBackward is true of what goes, if at all, before a backward pass could see it.
func BeforeBackward(a *Facts, id timeline.AllocationID) bool {
	if !a.Trains {
		return true
	}
	pass := a.BackwardAfter(a.Run(a.Born(id)))
	return pass == nil || a.Freed(id) < pass.First
}

// matrix is the least bytes of what no bias or norm has by chance.
const matrix = 1 << 16

// WeightSized is true of what is as large as a weight, and larger than what has a
// weight's size by chance.
func WeightSized(a *Facts, id timeline.AllocationID) bool {
	n := a.Timeline.Requested(id)
	return n >= matrix && Sizes.Of(a).WeightSize[n] > 0
}

// Row is the largest size that two are multiples of.
func Row(n, size int64) int64 {
	for size > 0 {
		n, size = size, n%size
	}
	return n
}

// Pass is one forward with the backward that follows it, if any.
type Pass struct {
	First, End int
	Backward   *phases.Run
}

// Passes are the forward runs of training, cut where passes follow each other
// that no backward pass does, or the iterations of a loop that only runs forward.
func Passes(a *Facts) []Pass {
	var out []Pass
	if a.Trains {
		var cuts []int
		for _, steps := range slices.Concat(a.Waiting, a.Untrained) {
			for i := range steps {
				cuts = append(cuts, steps[i].FirstEvent)
			}
			cuts = append(cuts, steps[len(steps)-1].LastEvent+1)
		}
		slices.Sort(cuts)
		for r := range a.Runs {
			generated := a.Runs[r].Phase == meaning.Generate
			if a.Runs[r].Phase != meaning.Forward && !generated {
				continue
			}
			for first := a.Runs[r].First; first < a.Runs[r].End; {
				p := Pass{first, a.Runs[r].End, a.BackwardAfter(r)}
				if i, _ := slices.BinarySearch(cuts, first+1); i < len(cuts) {
					p.End = min(p.End, cuts[i])
				}
				if generated || a.UntrainedAt(first) != nil {
					p.Backward = nil
				}
				out = append(out, p)
				first = p.End
			}
		}
		return out
	}
	first := a.Loop
	for i := range a.Steps { // their peaks are being worked out
		next := a.Steps[i].FirstEvent
		if next > first {
			out = append(out, Pass{first, next, nil})
		}
		first = next
	}
	return append(out, Pass{first, a.Last, nil})
}

// SizeIndex counts allocations by requested bytes, as far as they look like weights, or
// like what comes of weights: they return as gradients, as moments, and halved as
// autocast's copies.
type SizeIndex struct {
	WeightSize map[int64]int  // what looks like weights
	WeightHalf map[int64]bool // half of them
	StateSize  map[int64]bool // what an optimizer makes and keeps
}

// Sizes are those of weights.
var Sizes = Named("sizes of weights", findSizes)

func findSizes(a *Facts) *SizeIndex {
	x := &SizeIndex{map[int64]int{}, map[int64]bool{}, map[int64]bool{}}
	for id := range timeline.AllocationID(a.Timeline.Len()) {
		if a.Phase[id] == meaning.Optimizer && a.Outlives(id) {
			x.StateSize[a.Timeline.Requested(id)] = true
		}
		older := a.Born(id) < 0
		if a.Phase[id] != meaning.Setup && !older {
			continue
		}
		if n := a.Timeline.Requested(id); n > phases.Scalar && (a.Outlives(id) || !older &&
			a.PhaseAt(a.Freed(id)) != meaning.Setup) {
			x.WeightSize[n]++
			x.WeightHalf[n/2] = true
		}
	}
	return x
}
