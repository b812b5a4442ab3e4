// Package kvcache tells key-value caches by their sizes: such as grow by concatenation,
// and rows of equal blocks, one or two for each of a model's layers.
//
// A rule for another kind of cache finds its blocks in a file of its own, called by
// Generates where it makes a loop one that generates.
package kvcache

import (
	"slices"
	"sort"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// FindGrowth finds caches that a program lets grow by concatenation: equal
// numbers of blocks of each size, sizes that rise by the same amount, each
// freed only after the next size is there. It also tells generation from other
// loops that only run forward.
//
// complexity: two loops over sizes, one that picks them and one that pairs them.
func FindGrowth(a *rules.Facts) {
	a.Growing, a.Chains = map[int64][]int{}, nil
	const fewest = 4 // keys and values of two layers: short spells are many
	bySize := spells(a, fewest)
	var sizes []*rules.Grown
	for _, spells := range bySize {
		for _, g := range spells {
			if g.Count >= fewest && g.Size >= 1024 && g.MinFreed > g.Last {
				sizes = append(sizes, g)
			}
		}
	}
	sort.Slice(sizes, func(i, j int) bool {
		if sizes[i].First != sizes[j].First {
			return sizes[i].First < sizes[j].First
		}
		return sizes[i].Size < sizes[j].Size
	})
	const look = 64
	for i, g := range sizes {
		for _, h := range sizes[i+1 : min(len(sizes), i+1+look)] {
			if h.Size <= g.Size || h.Size > 2*g.Size || !follows(g, h) {
				continue
			}
			if !h.Grows {
				followGrowth(a, bySize, g, h)
			}
			break
		}
	}
	for _, at := range a.Growing {
		slices.Sort(at)
	}
}

// spells gathers what forward passes allocate by size, but for what they save for
// backward, which rises and falls in every step.
// Of those with fewer blocks than that, a size keeps only the last.
func spells(a *rules.Facts, fewest int) map[int64][]*rules.Grown {
	bySize := map[int64][]*rules.Grown{}
	var recent [256]*rules.Grown // the last spells of sizes, which come again and again
	var room []rules.Grown
	for i := range a.Category {
		id := timeline.AllocationID(i)
		if p := a.Phase[id]; p != meaning.Forward && p != meaning.Generate || !rules.BeforeBackward(a, id) {
			continue
		}
		n, b, f := a.Timeline.Requested(id), a.Born(id), a.Freed(id)
		last := &recent[(n>>9^n>>17)&255]
		g := *last
		if g == nil || g.Size != n {
			g = nil
			if spells := bySize[n]; len(spells) > 0 {
				g = spells[len(spells)-1]
			}
		}
		if over := g != nil && b > g.MaxFreed; g == nil || over {
			if !over || g.Count >= fewest {
				if len(room) == 0 {
					room = make([]rules.Grown, 256)
				}
				g, room = &room[0], room[1:]
				bySize[n] = append(bySize[n], g)
			}
			*g = rules.Grown{Size: n, First: b, MinFreed: f}
		}
		*last = g
		g.Count++
		g.Last, g.MinFreed, g.MaxFreed = b, min(g.MinFreed, f), max(g.MaxFreed, f)
	}
	return bySize
}

// follows reports whether one size takes the place of another.
func follows(g, h *rules.Grown) bool {
	return h.Count == g.Count && h.First > g.Last && g.MinFreed > h.First
}

// followGrowth walks up from two sizes as long as the next one is there.
func followGrowth(a *rules.Facts, bySize map[int64][]*rules.Grown, g, h *rules.Grown) {
	chain := []*rules.Grown{g, h}
	for step := h.Size - g.Size; len(chain) < 1<<16; {
		last := chain[len(chain)-1]
		spells := bySize[last.Size+step]
		i := sort.Search(len(spells), func(i int) bool { return spells[i].First > last.Last })
		if i == len(spells) || !follows(last, spells[i]) || chain[len(chain)-2].MaxFreed > spells[i].First {
			break
		}
		chain = append(chain, spells[i])
	}
	if len(chain) < 4 {
		return
	}
	for i, c := range chain {
		at := c.Last
		if i+1 < len(chain) {
			at = chain[i+1].First
		}
		a.Growing[c.Size] = append(a.Growing[c.Size], at)
		c.Grows = true
	}
	a.Chains = append(a.Chains, chain)
	// what the first one took the place of, among other things of its size
	if before := 2*g.Size - h.Size; len(bySize[before]) > 0 {
		a.Growing[before] = append(a.Growing[before], g.First)
	}
}

// Generates turns loops that only run forward and keep a growing cache into
// generation, and what a program that trains does while one grows. Models fill a cache in training, too: a pass that
// keeps what backward would need, and no cache grows, is the first of one that failed. It reports whether a part became one.
//
// complexity: every way to tell a cache is a condition of one decision.
func Generates(a *rules.Facts) bool {
	if a.Trains {
		return generatesWithin(a)
	}
	if a.Saves && len(a.Growing) == 0 {
		return false
	}
	cached := findStatic(a) || len(a.Growing) > 0 || findPool(a) || findRequested(a)
	for i := 0; i < len(a.Category) && !cached && a.All&frames.Cache != 0; i++ {
		id := timeline.AllocationID(i)
		cached = a.Birth(id).Marks&frames.Cache != 0 && a.Phase[i] == meaning.Forward
	}
	if !cached {
		return false
	}
	for i := a.Loop; i < a.Last; i++ {
		if a.Phases[i] == meaning.Forward || a.Phases[i] == meaning.Data || a.Phases[i] == meaning.OtherPhase {
			a.Phases[i] = meaning.Generate
		}
	}
	a.Rephase()
	return true
}

// generatesWithin turns into generation what a program that trains does from the pass over
// a prompt until the cache that has grown since is gone.
func generatesWithin(a *rules.Facts) bool {
	done := 0
	for _, chain := range a.Chains {
		first, end := chain[0].First, chain[len(chain)-1].MaxFreed
		for i := max(a.Runs[a.Run(first)].First, done); i < min(end, a.Last); i++ {
			if a.Phases[i] == meaning.Forward || a.Phases[i] == meaning.OtherPhase {
				a.Phases[i] = meaning.Generate
			}
		}
		done = max(done, end)
	}
	if done > 0 {
		a.Rephase()
	}
	return done > 0
}

// hasLayers reports whether a model has so many layers, going by how often the sizes
// of most of its weights recur; what has another size beside them isn't one of them.
func hasLayers(a *rules.Facts, layers int, beside int64) bool {
	const large = 64 << 10 // norms and biases may be as large as each other
	var common, bytes, all int64
	for n, count := range a.WeightSize {
		if n == beside || n < large || count < layers {
			continue
		}
		all += n * int64(count)
		if count%layers == 0 {
			common = rules.Row(common, int64(count))
			bytes += n * int64(count)
		}
	}
	return common == int64(layers) && bytes*4 >= all*3
}

// findStatic finds caches of full length that are made once, in the first pass of
// a program that only runs forward or of each of its requests: blocks of one size
// in numbers that stay for the passes that follow. Beside a cache that grows, those
// are what a decoder's layers keep of the encoder's result, or of a prefix that requests
// have in common, one or two for each.
//
// complexity: each condition excludes something else that is made once and stays.
func findStatic(a *rules.Facts) bool {
	const (
		pairs, passes = 8, 3
		layer         = 8 // events between two of them at least: adapters are loaded at once
	)
	if a.Saves || len(a.Steps) < passes {
		return false
	}
	found, grown := false, grownBlocks(a)
	for k := range a.Steps { // each a pass, or a request
		first, last := a.Steps[k].FirstEvent, a.Steps[k].LastEvent
		if k == 0 {
			first = a.Loop
		}
		bySize, products := map[int64][]timeline.AllocationID{}, map[int64]bool{} // and sizes that modules make
		for i := first; i <= last; i++ {
			n := a.Events.Size[i]
			if a.Events.Action[i] != snapshot.Alloc || n < 1024 || a.WeightSize[n] > 0 ||
				a.Freed(a.Timeline.Of[i])-i < (last-first)/2 {
				continue
			}
			if e := a.Birth(a.Timeline.Of[i]); e.Marks&frames.Weight == 0 {
				bySize[n] = append(bySize[n], a.Timeline.Of[i])
				products[n] = products[n] || a.Recorded.Allocs && e.Marks&frames.UserInner == 0
			}
		}
		for n, ids := range bySize {
			crossed := len(ids) >= pairs/2 && slices.ContainsFunc(grown, func(n int) bool {
				return len(ids) == n ||
					len(ids)*2 == n
			})
			if !crossed && (products[n] || len(ids) < pairs || len(ids)%2 != 0 || len(a.Growing) > 0) {
				continue
			}
			gone, stay := a.Last, true
			for _, id := range ids {
				gone, stay = min(gone, a.Freed(id)), stay && a.Outlives(id)
			}
			pass := a.Born(ids[len(ids)-1]) - a.Born(ids[0])
			if k == 0 && stay && !crossed || pass > layer*len(ids) && gone-a.Born(ids[0]) > (passes+1)*pass &&
				(crossed || paired(a, ids)) {
				found = true
				for _, id := range ids {
					a.Kept[id] = true
				}
			}
		}
	}
	return found
}

// grownBlocks are the numbers of blocks that caches grow by at a time: keys and values
// of each layer.
func grownBlocks(a *rules.Facts) (out []int) {
	for _, c := range a.Chains {
		if n := c[0].Count; !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// FindKept finds keys and values that a model keeps in training because its
// cache is on: in recordings without stacks, an even number of blocks of one
// size that outlives each backward pass while everything else is freed.
//
// complexity: conditions on a pass, on a block and on blocks of one size, in nested loops.
func FindKept(a *rules.Facts) {
	if a.Recorded.Allocs || !a.Trains {
		return
	}
	whole, found := false, false // a backward pass to its end; keys and values
	for r := range a.Runs {
		p := a.BackwardAfter(r)
		if a.Runs[r].Phase != meaning.Forward || p == nil {
			continue
		}
		if whole && !found && (rules.IsCut(a, p) || a.BackwardAfter(a.Run(p.End)) == nil) {
			continue // it hasn't come to what was saved first, or a list has kept what a cache doesn't
		}
		whole = whole || !rules.IsCut(a, p)
		survivors := map[int64][]timeline.AllocationID{}
		saved := 0
		for i := a.Runs[r].First; i < a.Runs[r].End; i++ {
			if a.Events.Action[i] != snapshot.Alloc || a.Events.Size[i] <= 64 {
				continue
			}
			id := a.Timeline.Of[i]
			switch f := a.Freed(id); {
			case f >= a.Last && a.BackwardAfter(a.Run(p.End)) != nil: // a cache is replaced in the next pass
			case f >= p.End:
				survivors[a.Events.Size[i]] = append(survivors[a.Events.Size[i]], id)
			case f >= p.First:
				saved++
			}
		}
		for _, ids := range survivors {
			if len(ids) >= 4 && len(ids)*3 < saved && len(survivors) <= 6 && paired(a, ids) && dropped(a, ids) {
				found = true
				for _, id := range ids {
					a.Kept[id] = true
				}
			}
		}
	}
}

// dropped reports whether allocations go at once: what a backward pass frees goes
// bit by bit, while it makes gradients.
func dropped(a *rules.Facts, ids []timeline.AllocationID) bool {
	first, end := a.Last, 0
	for _, id := range ids {
		first, end = min(first, a.Freed(id)), max(end, a.Freed(id))
	}
	return !slices.Contains(a.Events.Action[first:end], snapshot.Alloc)
}

// paired reports whether allocations come two by two, a key and a value of each
// layer, with more between the pairs than within them; what an encoder hands to
// a decoder may be one more before them.
func paired(a *rules.Facts, ids []timeline.AllocationID) bool {
	ids = ids[len(ids)%2:]
	for i := 2; i < len(ids); i += 2 {
		between := a.Born(ids[i]) - a.Born(ids[i-1])
		if a.Born(ids[i-1])-a.Born(ids[i-2]) >= between || a.Born(ids[i+1])-a.Born(ids[i]) >= between {
			return false
		}
	}
	return true
}

// IsGrowing reports whether an allocation is part of a cache that grows.
func IsGrowing(a *rules.Facts, id timeline.AllocationID) bool {
	if a.Phase[id] != meaning.Generate && a.Phase[id] != meaning.Forward {
		return false
	}
	at := a.Growing[a.Timeline.Requested(id)]
	i := sort.SearchInts(at, a.Born(id)) // the first one it may have seen
	return i < len(at) && a.Freed(id) > at[i]
}

var GrowingCache = &rules.Rule{
	ID: "kv-cache-growing",
	Doc: `One of equal numbers of blocks of sizes that rise by the same amount, each freed only after the next
size is there: a key-value cache that grows by concatenation.`,
	Signal: meaning.BySize,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Needs:  []rules.Need{rules.Rows, rules.Sizes, rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		if len(a.Growing) == 0 {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			if !IsGrowing(a, id) {
				return rules.Claim{}
			}
			return rules.As(meaning.KVCache, rules.Strong)
		}
	},
}

var CacheRow = &rules.Rule{
	ID: "kv-cache-row",
	Doc: `One of a row of equal blocks, one or two for each of the model's layers, that stay from pass to pass
while all else goes: keys and values of a cache that is made whole, or that training passes keep (use_cache).`,
	Signal: meaning.ByLife,
	Born:   rules.BornIn(meaning.Setup, meaning.Data, meaning.Forward, meaning.Generate),
	Needs:  []rules.Need{rules.Rows, rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		if !slices.Contains(a.Kept, true) {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			if !a.Kept[id] {
				return rules.Claim{}
			}
			return rules.As(meaning.KVCache, rules.Plausible)
		}
	},
}
