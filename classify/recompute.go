package classify

import (
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// findRecomputed finds, without stacks, what checkpointing computes again inside
// backward: runs of sizes that forward went through as well, in programs whose
// forward keeps little. What such a run still holds at its end was saved.
func findRecomputed(a *analysis) {
	a.recomputed = pages.Make[bool](len(a.Category))
	if a.recorded.allocs {
		return
	}
	for _, p := range passes(a) {
		if p.backward == nil {
			continue
		}
		forward := sizesIn(a, p.first, p.end)
		grams := grams(a, forward)
		if len(grams) == 0 || !keepsLittle(a, forward, p.end) {
			continue
		}
		again := madeAgain(a, sizesIn(a, p.backward.first, p.backward.end), grams)
		if len(again) == 0 || len(again) <= savedFor(a, p.backward) {
			continue
		}
		for _, id := range again {
			a.recomputed[id] = true
		}
		for _, i := range forward { // what a layer's variables hold goes at once, too, when it is through
			a.inBulk[a.t.Of[i]] = false
		}
	}
}

// savedFor counts what a backward pass frees that was there before it: a layer that is
// computed again has saved little besides what it begins with, however much other
// passes before it, which nothing was saved of, have freed.
func savedFor(a *analysis, p *run) (saved int) {
	for i := p.first; i < p.end; i++ {
		if id := a.t.Of[i]; a.events.Action[i] == snapshot.FreeRequested && id != timeline.NoAllocation &&
			a.born(id) < p.first && a.Phase[id] == Forward && a.t.Requested(id) > 64 {
			saved++
		}
	}
	return saved
}

// gramLength is how many sizes in a row must agree.
const gramLength = 6

// sizesIn lists the events of a range's allocations, numbers and workspaces left out.
func sizesIn(a *analysis, first, end int) []int {
	var out []int
	for i := first; i < end; i++ {
		if a.events.Action[i] == snapshot.Alloc && a.events.Size[i] > 64 && !cublasSize(a.events.Size[i]) {
			out = append(out, i)
		}
	}
	return out
}

// gram hashes the sizes from one place on; ok when they are of several kinds.
func gram(a *analysis, events []int, at int) (hash uint64, ok bool) {
	if at+gramLength > len(events) {
		return 0, false
	}
	hash = 14695981039346656037
	kinds := 1
	for k, i := range events[at : at+gramLength] {
		n := a.events.Size[i]
		hash = (hash ^ uint64(n)) * 1099511628211
		if k > 0 && n != a.events.Size[events[at+k-1]] {
			kinds++
		}
	}
	return hash, kinds >= 3
}

func grams(a *analysis, events []int) map[uint64]bool {
	out := map[uint64]bool{}
	for at := range events {
		if h, ok := gram(a, events, at); ok {
			out[h] = true
		}
	}
	return out
}

// keepsLittle tells whether most of what forward makes is gone when it ends.
func keepsLittle(a *analysis, events []int, end int) bool {
	gone := 0
	for _, i := range events {
		if a.freed(a.t.Of[i]) < end {
			gone++
		}
	}
	return gone*10 >= len(events)*8
}

// madeAgain lists what outlives each run of known sizes.
func madeAgain(a *analysis, events []int, grams map[uint64]bool) (out []timeline.AllocationID) {
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
			if id := a.t.Of[i]; a.freed(id) > end && a.freed(id) < a.last {
				out = append(out, id)
			}
		}
		at = last
	}
	return out
}

// recomputedClaim is for what checkpointing made again and kept for the gradients
// of its layer.
func recomputedClaim(a *analysis, id timeline.AllocationID, f int) claim {
	switch {
	case a.recomputed[id]:
		return kindOf(Activations, Recomputed, likely+2)
	case f >= a.last, a.recorded.native && a.recorded.frees:
	case !a.recorded.frees:
		// What was made last before a free tells whether the layer is still at work.
		if made := madeBefore(a, f).Marks; a.birth(id).Marks&(frames.Rebuild|frames.Nested) == frames.Rebuild &&
			made&(frames.Rebuild|frames.Nested) != frames.Rebuild {
			return kindOf(Activations, Recomputed, likely)
		}
	case a.birth(id).Marks&(frames.Rebuild|frames.Nested) == frames.Rebuild && (a.events.StackOf(f) == 0 ||
		a.death(id).Marks&frames.Nested != 0):
		return kindOf(Activations, Recomputed, likely+5) // made by the layer, freed by the engine
	}
	return claim{}
}

// madeBefore is the evidence of the last allocation before an event.
func madeBefore(a *analysis, event int) evidence {
	for i := event - 1; i >= 0; i-- {
		if a.events.Action[i] == snapshot.Alloc {
			return a.stacks[a.events.StackOf(i)]
		}
	}
	return evidence{}
}
