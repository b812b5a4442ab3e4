package phases

import (
	"slices"

	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// What a backward pass does and a number that merely lives for a while doesn't.

// scalarAlive is a scalar that is there at the end, and what had been released when it was made.
type scalarAlive struct {
	born   int
	before int64
}

// unfinished is the backward pass in which a recording ends: its root gradient is still there. Where no request failed, it
// must do what others do, too.
func (a rootGradients) unfinished(alive []scalarAlive, released *releases, found []root) (root, bool) {
	const most, few, looks = 64, 8, 4 // numbers; releases; of the numbers that are looked at closely
	failed := len(a.OOMs) > 0 && a.made(a.OOMs[len(a.OOMs)-1], a.Last) == 0
	over := 0 // where the last pass that was seen to its end is
	if n := len(found); n > 0 {
		over = found[n-1].end
	}
	made, at, looked := int64(0), a.Last, 0
	for k := len(alive) - 1; k >= max(0, len(alive)-most); k-- {
		x := alive[k]
		for ; at > x.born; at-- {
			if a.Events.Action[at-1] == snapshot.Alloc && a.Freed(a.Timeline.Of[at-1]) >= a.Last {
				made++
			}
		}
		r := root{x.born, a.Last - 1, released.bornBefore(x.born) - x.before}
		if x.born <= over || r.released < few || r.released*4 < made {
			continue
		}
		if looked++; failed && !a.keptByLayers(x.born, alive[max(0, k-most):k]) || len(a.gradual([]root{r})) > 0 {
			return r, true
		}
		if looked == looks {
			break
		}
	}
	return root{}, false
}

// surroundings are the sizes of the requests before and after an event.
func (a *facts) surroundings(event int) (sizes [2]int64) {
	for k, step := range [...]int{-1, 1} {
		for i := event + step; 0 <= i && i < a.Last && sizes[k] == 0; i += step {
			if a.Events.Action[i] == snapshot.Alloc {
				sizes[k] = a.Events.Size[i]
			}
		}
	}
	return sizes
}

// keptByLayers reports whether a number is one of those that each layer keeps for its backward pass, such as the seed of its
// attention: others were made between requests of the same sizes.
func (a rootGradients) keptByLayers(born int, earlier []scalarAlive) bool {
	own := a.surroundings(born)
	return slices.ContainsFunc(earlier, func(x scalarAlive) bool { return a.surroundings(x.born) == own })
}

// cutShort drops one that the last failed request cut short, unless it had freed what was there before it rather than made
// more: a number that a layer keeps for backward goes with all else when the error unwinds.
func (a rootGradients) cutShort(roots []root) []root {
	if len(a.OOMs) == 0 {
		return roots
	}
	failed := a.OOMs[len(a.OOMs)-1]
	return slices.DeleteFunc(roots, func(r root) bool {
		made := int64(0)
		for i := range a.allocs(r.first, failed) {
			if a.Freed(a.Timeline.Of[i]) > failed {
				made++
			}
		}
		return r.first <= failed && failed <= r.end && r.released*4 < made
	})
}

// gradual keeps those during which the freeing goes on between allocations: an output that holds a graph until the next one
// is there frees it in one go.
func (a rootGradients) gradual(roots []root) []root {
	const few, least = 8, 6 // frees without an allocation in between; allocations of the smallest backward
	var out []root
	for _, r := range roots {
		together, spread, all, made := 0, 0, 0, 0
		for i := r.first; i <= r.end; i++ {
			id := a.Timeline.Of[i]
			switch {
			case id == timeline.NoAllocation || a.Covered[i] != 0:
			case a.Events.Action[i] == snapshot.Alloc:
				if together <= few {
					spread += together
				}
				together = 0
				made++
			case a.Events.Action[i] == snapshot.FreeRequested && a.Born(id) < r.first:
				together++
				all++
			}
		}
		if spread*3 >= all && made >= least && made*2 >= all && a.mirrored(r) { // every saved tensor serves a gradient
			out = append(out, r)
		}
	}
	return out
}

// proportioned drops those that take many times as long as anything between them: a number that a request makes after its
// prompt may live through all of its tokens.
func proportioned(roots []root) []root {
	const times = 12
	if len(roots) < 2 {
		return roots // what came before it may be older than the trace
	}
	longest := 0 // events
	for i := range roots[1:] {
		longest = max(longest, roots[i+1].first-roots[i].end)
	}
	return slices.DeleteFunc(roots, func(r root) bool { return r.end-r.first > times*longest })
}

// weighty drops all of them where they free next to nothing of what was made before them: masks and positions are worked out
// around numbers, too, once in every pass.
func (a rootGradients) weighty(roots []root) []root {
	const part = 1000
	var within, all int64 // bytes
	n := 0
	for i, id := range a.frees(0, a.Last) {
		b := a.Born(id)
		if len(roots) == 0 || b < 0 || i-b < shortest {
			continue
		}
		all += a.Timeline.Requested(id)
		for n < len(roots)-1 && roots[n].end < i {
			n++
		}
		if r := roots[n]; b < r.first && r.first <= i && i <= r.end {
			within += a.Timeline.Requested(id)
		}
	}
	if within < all/part {
		return nil
	}
	return roots
}

// mirrored reports whether what is freed during a run goes in the opposite order of its birth, as saved tensors do and caches
// don't: what the first half of the frees lets go was born after what the second half does. Of what is older than the trace
// the order isn't known.
func (a rootGradients) mirrored(r root) bool {
	const several = 8
	var births []int
	older := 0
	for i, id := range a.frees(r.first, r.end) {
		switch b := a.Born(id); {
		case a.Covered[i] != 0:
		case b < 0:
			older++
		case b < r.first:
			births = append(births, b)
		}
	}
	if older > len(births) && len(births) < several {
		return true
	}
	half := len(births) / 2
	return mean(births[:half]) > mean(births[half:])
}

func mean(numbers []int) float64 {
	sum := 0.0
	for _, n := range numbers {
		sum += float64(n)
	}
	return sum / float64(max(len(numbers), 1))
}
