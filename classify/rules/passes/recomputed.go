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

var RecomputedInBackward = &rules.Rule{
	ID: "recomputed",
	Doc: `Made again in a backward pass by checkpointing, and kept until its layer's gradients are done. Stacks
show the layer's forward below the engine; without them, runs of sizes come back that forward went through.`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Backward),
	Needs:  []rules.Need{rules.Lives, rules.Runs},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		return func(id timeline.AllocationID) rules.Claim {
			f := a.Freed(id)
			if f >= a.Runs[a.Run(a.Born(id))].End {
				return rules.Claim{}
			}
			return recomputedClaim(a, id, f)
		}
	},
}

// FindRecomputed finds, without stacks, what checkpointing computes again inside
// backward: runs of sizes that forward went through as well, in programs whose
// forward keeps little. What such a run still holds at its end was saved.
func FindRecomputed(a *rules.Facts) {
	a.Recomputed = pages.Make[bool](len(a.Category))
	if a.Recorded.Allocs {
		return
	}
	for _, p := range rules.Passes(a) {
		if p.Backward == nil {
			continue
		}
		forward := sizesIn(a, p.First, p.End)
		grams := grams(a, forward)
		if len(grams) == 0 || !keepsLittle(a, forward, p.End) {
			continue
		}
		again := madeAgain(a, sizesIn(a, p.Backward.First, p.Backward.End), grams)
		if len(again) == 0 || len(again) <= savedFor(a, p.Backward) {
			continue
		}
		for _, id := range again {
			a.Recomputed[id] = true
		}
		for _, i := range forward { // what a layer's variables hold goes at once, too, when it is through
			a.InBulk[a.Timeline.Of[i]] = false
		}
	}
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

// gramLength is how many sizes in a row must agree.
const gramLength = 6

// sizesIn lists the events of a range's allocations, numbers and workspaces left out.
func sizesIn(a *rules.Facts, first, end int) []int {
	var out []int
	for i := first; i < end; i++ {
		if a.Events.Action[i] == snapshot.Alloc && a.Events.Size[i] > 64 && !phases.CublasSize(a.Events.Size[i]) {
			out = append(out, i)
		}
	}
	return out
}

// gram hashes the sizes from one place on; ok when they are of several kinds.
func gram(a *rules.Facts, events []int, at int) (hash uint64, ok bool) {
	if at+gramLength > len(events) {
		return 0, false
	}
	hash = 14695981039346656037
	kinds := 1
	for k, i := range events[at : at+gramLength] {
		n := a.Events.Size[i]
		hash = (hash ^ uint64(n)) * 1099511628211
		if k > 0 && n != a.Events.Size[events[at+k-1]] {
			kinds++
		}
	}
	return hash, kinds >= 3
}

func grams(a *rules.Facts, events []int) map[uint64]bool {
	out := map[uint64]bool{}
	for at := range events {
		if h, ok := gram(a, events, at); ok {
			out[h] = true
		}
	}
	return out
}

// keepsLittle tells whether most of what forward makes is gone when it ends.
func keepsLittle(a *rules.Facts, events []int, end int) bool {
	gone := 0
	for _, i := range events {
		if a.Freed(a.Timeline.Of[i]) < end {
			gone++
		}
	}
	return gone*10 >= len(events)*8
}

// madeAgain lists what outlives each run of known sizes.
func madeAgain(a *rules.Facts, events []int, grams map[uint64]bool) (out []timeline.AllocationID) {
	for at := 0; at < len(events); {
		if h, ok := gram(a, events, at); !ok || !grams[h] {
			at++
			continue
		}
		first, last := at, at+gramLength
		for next := at + 1; next <= last && next < len(events); next++ {
			if h, ok := gram(a, events, next); ok && grams[h] {
				last = next + gramLength
			}
		}
		end := events[min(last, len(events))-1]
		for _, i := range events[first:min(last, len(events))] {
			if id := a.Timeline.Of[i]; a.Freed(id) > end && a.Freed(id) < a.Last {
				out = append(out, id)
			}
		}
		at = last
	}
	return out
}

// recomputedClaim is for what checkpointing made again and kept for the gradients
// of its layer.
func recomputedClaim(a *rules.Facts, id timeline.AllocationID, f int) rules.Claim {
	switch {
	case a.Recomputed[id]:
		return rules.KindOf(meaning.Activations, meaning.Recomputed, rules.Likely+2)
	case f >= a.Last, a.Recorded.Native && a.Recorded.Frees:
	case !a.Recorded.Frees:
		// What was made last before a free tells whether the layer is still at work.
		if made := madeBefore(a, f).Marks; a.Birth(id).Marks&(frames.Rebuild|frames.Nested) == frames.Rebuild &&
			made&(frames.Rebuild|frames.Nested) != frames.Rebuild {
			return rules.KindOf(meaning.Activations, meaning.Recomputed, rules.Likely)
		}
	case a.Birth(id).Marks&(frames.Rebuild|frames.Nested) == frames.Rebuild && (a.Events.StackOf(f) == 0 ||
		a.Death(id).Marks&frames.Nested != 0):
		return rules.KindOf(meaning.Activations, meaning.Recomputed, rules.Likely+5) // made by the layer, freed by the engine
	}
	return rules.Claim{}
}

// madeBefore is the evidence of the last allocation before an event.
func madeBefore(a *rules.Facts, event int) phases.StackMarks {
	for i := event - 1; i >= 0; i-- {
		if a.Events.Action[i] == snapshot.Alloc {
			return a.Stacks[a.Events.StackOf(i)]
		}
	}
	return phases.StackMarks{}
}
