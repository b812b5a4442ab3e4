package passes

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

var RecomputedInBackward = inBackward(rules.Rule{
	ID: "recomputed",
	Doc: `Made again in a backward pass by checkpointing, and kept until its layer's gradients are done. Stacks
show the layer's forward below the engine; without them, runs of sizes come back that forward went through.`,
	Needs:  []rules.Need{Recomputation},
	Proven: 50,
	Begin: func(a *rules.Facts) rules.Says {
		again := Recomputation.Of(a)
		return func(id timeline.AllocationID) rules.Claim {
			b, f := a.Born(id), a.Freed(id)
			if f-b <= 2 || f >= a.Runs[a.Run(b)].End { // before anything could use it further
				return rules.Claim{}
			}
			return again.claim(a, id, f)
		}
	},
})

// MadeAgain tells what checkpointing computes again.
type MadeAgain struct {
	Recomputed []bool // by allocation: made again inside backward, as runs of sizes tell
	Through    []bool // by allocation: of a forward pass that is made again, whose layers let go of all when they are through
	Elsewhere  bool   // forward keeps little, and nothing shows that it is made again: the host may have it
}

// Recomputation is what checkpointing computes again, without stacks.
var Recomputation = rules.Named("what checkpointing computes again", FindRecomputed)

// FindRecomputed finds, without stacks, what checkpointing computes again inside
// backward: runs of sizes that forward went through as well. What such a run still holds
// at its end was saved.
func FindRecomputed(a *rules.Facts) *MadeAgain {
	x := &MadeAgain{Recomputed: pages.Make[bool](len(a.Category)), Through: pages.Make[bool](len(a.Category))}
	if a.Recorded.Allocs {
		return x
	}
	for _, p := range rules.Passes(a) {
		if p.Backward == nil {
			continue
		}
		forward := sizesIn(a, p.First, p.End)
		if len(forward) < runLength {
			continue
		}
		again := madeAgain(a, forward, sizesIn(a, p.Backward.First, p.Backward.End))
		if len(again) == 0 || len(again) <= savedFor(a, p.Backward) {
			x.Elsewhere = true
			continue
		}
		for _, id := range again {
			x.Recomputed[id] = true
		}
		for _, i := range forward {
			x.Through[a.Timeline.Of[i]] = true
		}
	}
	return x
}

// savedFor counts what a backward pass frees that was there before it: a layer that is
// computed again has saved little besides what it begins with, however much other
// passes before it, which nothing was saved of, have freed.
func savedFor(a *rules.Facts, p *phases.Run) (saved int) {
	for i := p.First; i < p.End; i++ {
		if id := a.Timeline.Of[i]; a.Events.Action[i] == snapshot.FreeRequested && id != timeline.NoAllocation &&
			a.Born(id) < p.First && a.Phase[id] == meaning.Forward && a.Timeline.Requested(id) > 64 {
			saved++
		}
	}
	return saved
}

// runLength is how many sizes in a row must agree.
const runLength = 6

// sizesIn lists the events of a range's allocations, scalars and workspaces left out.
func sizesIn(a *rules.Facts, first, end int) []int {
	var out []int
	for i := range a.Allocs(first, end) {
		if n := a.Events.Size[i]; n > 64 && !phases.CublasSize(n) {
			out = append(out, i)
		}
	}
	return out
}

// sizesOf are the sizes that events make.
func sizesOf(a *rules.Facts, events []int) []int64 {
	sizes := make([]int64, len(events))
	for k, i := range events {
		sizes[k] = a.Events.Size[i]
	}
	return sizes
}

// madeAgain lists what outlives each run of sizes in backward's events that forward had.
func madeAgain(a *rules.Facts, forward, events []int) (out []timeline.AllocationID) {
	sizes := sizesOf(a, events)
	at := timeline.NewRuns(sizesOf(a, forward), runLength).In(sizes)
	known := func(k int) bool { return at[k] != timeline.NoRun }
	for first := 0; first < len(at); first++ {
		if !known(first) {
			continue
		}
		last := first + runLength
		for next := first + 1; next <= last && next < len(at); next++ {
			if known(next) {
				last = next + runLength
			}
		}
		for _, i := range events[first:last] {
			if id := a.Timeline.Of[i]; a.Freed(id) > events[last-1] && a.Freed(id) < a.Last {
				out = append(out, id)
			}
		}
		first = last - 1
	}
	return out
}

// claim is for what checkpointing made again and kept for the gradients
// of its layer.
func (x *MadeAgain) claim(a *rules.Facts, id timeline.AllocationID, f int) rules.Claim {
	switch {
	case x.Recomputed[id]:
		return rules.KindOf(meaning.Activations, meaning.Recomputed, rules.Likely+2)
	case f >= a.Last, a.Recorded.Native && a.Recorded.Frees:
	case !a.Recorded.Frees:
		if a.Birth(id).Marks&(frames.Rebuild|frames.Nested) == frames.Rebuild {
			return rules.KindOf(meaning.Activations, meaning.Recomputed, rules.Likely)
		}
	case a.Birth(id).Marks&(frames.Rebuild|frames.Nested) == frames.Rebuild && (a.Events.StackOf(f) == 0 ||
		a.Death(id).Marks&frames.Nested != 0):
		return rules.KindOf(meaning.Activations, meaning.Recomputed, rules.Likely+5) // made by the layer, freed by the engine
	}
	return rules.Claim{}
}
