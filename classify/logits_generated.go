package classify

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/snapshot"
)

// markGenerated marks scores over the vocabulary in generation without stacks:
// between the last layer's keys and values of one pass and the first layer's of
// the next, what is by far the largest.
func markGenerated(a *analysis) {
	slices.SortFunc(a.chains, func(x, y []*grown) int { return cmp.Compare(x[0].first, y[0].first) })
	from := a.loop
	for k, chain := range a.chains {
		if chain[0].first < from { // a part of the cache with sizes of its own
			continue
		}
		markTurn(a, from, chain[0].first) // the prompt's pass
		for i := range chain[1:] {
			markTurn(a, chain[i].last+1, chain[i+1].first)
		}
		n := len(chain)
		from = chain[n-1].last + 1
		end := from + chain[n-1].first - chain[n-2].last // as long as the turn before
		if k+1 < len(a.chains) {
			end = min(end, a.chains[k+1][0].first)
		}
		from = min(end, a.last)
		markTurn(a, chain[n-1].last+1, from)
	}
}

// markTurn marks the scores between two passes.
func markTurn(a *analysis, from, end int) {
	var top, rest int64
	each := func(f func(i int, n int64)) {
		for i := from; i < end; i++ {
			if n := a.events.Size[i]; a.events.Action[i] == snapshot.Alloc && n > 64 && !cublasSize(n) &&
				!isGrowing(a, a.t.Of[i]) {
				f(i, n)
			}
		}
	}
	each(func(_ int, n int64) { top = max(top, n) })
	each(func(_ int, n int64) {
		if !family(n, top) {
			rest = max(rest, n)
		}
	})
	if top < 2*rest || top < 1<<16 {
		return
	}
	const far, few = 24, 2 // allocations; places far from each other
	made, last, places, gap := 0, -far-1, 0, 0
	each(func(_ int, n int64) {
		if made++; family(n, top) {
			if made-last > far {
				places++
			}
			if places > 1 {
				gap = max(gap, made-last)
			}
			last = made
		}
	})
	if places > few || places == few && gap*4 > made {
		return // scores are worked on at once: these are of layers
	}
	first := true
	each(func(i int, n int64) {
		if !family(n, top) {
			return
		}
		a.logits[a.t.Of[i]] = LogitsCopy
		if first {
			a.logits[a.t.Of[i]], first = scores, false
		}
	})
}
