package logits

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/classify/rules/kvcache"
	"github.com/vramscope/vramscope/snapshot"
)

// markGenerated marks logits over the vocabulary in generation without stacks:
// between the last layer's keys and values of one pass and the first layer's of
// the next, what is by far the largest.
//
//worth:off
func markGenerated(a *rules.Facts) {
	slices.SortFunc(a.Chains, func(x, y []*rules.Grown) int { return cmp.Compare(x[0].First, y[0].First) })
	from := a.Loop
	for k, chain := range a.Chains {
		if chain[0].First < from { // a part of the cache with sizes of its own
			continue
		}
		markTurn(a, from, chain[0].First) // the prompt's pass
		for i := range chain[1:] {
			markTurn(a, chain[i].Last+1, chain[i+1].First)
		}
		n := len(chain)
		from = chain[n-1].Last + 1
		end := from + chain[n-1].First - chain[n-2].Last // as long as the turn before
		if k+1 < len(a.Chains) {
			end = min(end, a.Chains[k+1][0].First)
		}
		from = min(end, a.Last)
		markTurn(a, chain[n-1].Last+1, from)
	}
}

// markTurn marks the logits between two passes.
//
// complexity: three scans of the same requests, each with its condition.
func markTurn(a *rules.Facts, from, end int) {
	var top, rest int64
	each := func(f func(i int, n int64)) {
		for i := from; i < end; i++ {
			if n := a.Events.Size[i]; a.Events.Action[i] == snapshot.Alloc && n > 64 && !phases.CublasSize(n) &&
				!kvcache.IsGrowing(a, a.Timeline.Of[i]) {
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
		return // logits are worked on at once: these are of layers
	}
	first := true
	each(func(i int, n int64) {
		if !family(n, top) {
			return
		}
		a.Logits[a.Timeline.Of[i]] = meaning.LogitsCopy
		if first {
			a.Logits[a.Timeline.Of[i]], first = plain, false
		}
	})
}
