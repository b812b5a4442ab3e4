package classify

import (
	"maps"
	"slices"
	"sort"

	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// findGrowth finds caches that a program lets grow by concatenation: equal
// numbers of blocks of each size, sizes that rise by the same amount, each
// freed only after the next size is there. It also tells generation from other
// loops that only run forward.
func findGrowth(a *analysis) {
	a.growing, a.chains = map[int64][]int{}, nil
	fewest := 2
	if !a.trains {
		fewest = 4 // keys and values of two layers: short spells are many
	}
	findReordered(a)
	bySize := spells(a, fewest)
	var sizes []*grown
	for _, spells := range bySize {
		for _, g := range spells {
			if g.count >= fewest && g.size >= 1024 && (a.trains || g.minFreed > g.last) {
				sizes = append(sizes, g)
			}
		}
	}
	sort.Slice(sizes, func(i, j int) bool {
		if sizes[i].first != sizes[j].first {
			return sizes[i].first < sizes[j].first
		}
		return sizes[i].size < sizes[j].size
	})
	const look = 64
	for i, g := range sizes {
		for _, h := range sizes[i+1 : min(len(sizes), i+1+look)] {
			if h.size <= g.size || h.size > 2*g.size || !follows(g, h) {
				continue
			}
			if !h.grows {
				followGrowth(a, bySize, g, h)
			}
			break
		}
	}
	for _, at := range a.growing {
		slices.Sort(at)
	}
}

// spells gathers what forward passes allocate by size. In training all of a
// size are one spell: what is saved for backward rises and falls in every step.
// Of those with fewer blocks than that, a size keeps only the last.
func spells(a *analysis, fewest int) map[int64][]*grown {
	bySize := map[int64][]*grown{}
	var recent [256]*grown // the last spells of sizes, which come again and again
	var room []grown
	for i := range a.Category {
		id := timeline.AllocationID(i)
		if p := a.Phase[id]; p != Forward && p != Generate || a.moved.has(id) {
			continue
		}
		n, b, f := a.t.Requested(id), a.born(id), goes(a, id)
		last := &recent[(n>>9^n>>17)&255]
		g := *last
		if g == nil || g.size != n {
			g = nil
			if spells := bySize[n]; len(spells) > 0 {
				g = spells[len(spells)-1]
			}
		}
		if over := g != nil && !a.trains && b > g.maxFreed; g == nil || over {
			if !over || g.count >= fewest {
				if len(room) == 0 {
					room = make([]grown, 256)
				}
				g, room = &room[0], room[1:]
				bySize[n] = append(bySize[n], g)
			}
			*g = grown{size: n, first: b, minFreed: f}
		}
		*last = g
		g.count++
		g.last, g.minFreed, g.maxFreed = b, min(g.minFreed, f), max(g.maxFreed, f)
	}
	return bySize
}

// findReordered sees copies that take the place of what they are made of, as beam
// search puts its caches in another order: of the same size, and the next thing is
// that the other goes. They may come one by one, or those of a layer or of all
// layers at once, which go in the opposite order. Stacks say so where a library does it.
func findReordered(a *analysis) {
	if a.trains || a.recorded.allocs && a.all&frames.Cache != 0 {
		return
	}
	var made, gone []timeline.AllocationID // in one go, without anything between
	pairs := [][2]timeline.AllocationID{}  // of a copy and what it takes the place of
	for i, action := range a.events.Action {
		switch {
		case action == snapshot.FreeCompleted || a.t.Of[i] == timeline.NoAllocation:
		case action == snapshot.Alloc:
			if len(gone) > 0 {
				pairs = pairReordered(a, pairs, made, gone)
				made, gone = made[:0], gone[:0]
			}
			made = append(made, a.t.Of[i])
		case action == snapshot.FreeRequested && len(made) > len(gone):
			gone = append(gone, a.t.Of[i])
		}
	}
	pairs = pairReordered(a, pairs, made, gone)
	if len(pairs) == 0 {
		return
	}
	a.reordered = pages.Make[int32](len(a.Category))
	for _, p := range slices.Backward(pairs) { // a copy of a copy goes with the last
		a.moved.add(p[0])
		a.reordered[p[1]] = int32(goes(a, p[0])) + 1
	}
}

// pairReordered adds the pairs of what was made in one go and what went after it.
func pairReordered(a *analysis, pairs [][2]timeline.AllocationID, made,
	gone []timeline.AllocationID) [][2]timeline.AllocationID {
	const (
		large = 1024
		many  = 4 // keys and values of two layers
	)
	n := 0
	for n < len(gone) {
		copied, id := made[len(made)-1-n], gone[n]
		if size := a.t.Requested(id); size < large || a.t.Requested(copied) != size || id >= made[0] {
			break
		}
		n++
	}
	layer := n == 2 && gone[0] == gone[1]+1 // its keys and values, made one after the other
	if n < many && !layer {
		n = min(n, 1)
	}
	pairs = pages.Grown(pairs, n)
	for j := range n {
		pairs = append(pairs, [2]timeline.AllocationID{made[len(made)-1-j], gone[j]})
	}
	return pairs
}

// goes is the event at which what an allocation holds is gone, in copies that take
// its place, too.
func goes(a *analysis, id timeline.AllocationID) int {
	if a.reordered != nil && a.reordered[id] > 0 {
		return int(a.reordered[id]) - 1
	}
	return a.freed(id)
}

// follows tells whether one size takes the place of another.
func follows(g, h *grown) bool {
	return h.count == g.count && h.first > g.last && g.minFreed > h.first
}

// followGrowth walks up from two sizes as long as the next one is there.
func followGrowth(a *analysis, bySize map[int64][]*grown, g, h *grown) {
	chain := []*grown{g, h}
	for step := h.size - g.size; len(chain) < 1<<16; {
		last := chain[len(chain)-1]
		spells := bySize[last.size+step]
		i := sort.Search(len(spells), func(i int) bool { return spells[i].first > last.last })
		if i == len(spells) || !follows(last, spells[i]) || !a.trains && chain[len(chain)-2].maxFreed > spells[i].first {
			break
		}
		chain = append(chain, spells[i])
	}
	if len(chain) < 4 {
		return
	}
	for i, c := range chain {
		at := c.last
		if i+1 < len(chain) {
			at = chain[i+1].first
		}
		a.growing[c.size] = append(a.growing[c.size], at)
		c.grows = true
	}
	a.chains = append(a.chains, chain)
	// what the first one took the place of, among other things of its size
	if a.trains {
		if before := g.size - (h.size - g.size); len(bySize[before]) > 0 && len(a.growing[before]) == 0 {
			a.growing[before] = append(a.growing[before], g.first)
		}
		return
	}
	before := fusedBefore(a, g, h)
	if n := 2*g.size - h.size; before == 0 && len(bySize[n]) > 0 {
		before = n
	}
	if before > 0 {
		a.growing[before] = append(a.growing[before], g.first)
	}
}

// fusedBefore is the size of what the first blocks of a growing cache take the
// place of where each holds a layer's queries, keys and values in one, as the pass
// over a prompt leaves them: gone before the cache grows again. 0 where they are
// others.
func fusedBefore(a *analysis, g, h *grown) int64 {
	prompt := 2*g.size - h.size // its keys, where these hold one token more
	gone := map[int64]int{}
	for i := g.first + 1; i < h.first; i++ {
		if id := a.t.Of[i]; a.events.Action[i] == snapshot.FreeRequested && id != timeline.NoAllocation && a.born(id) < g.first &&
			a.born(id) >= a.loop {
			gone[a.t.Requested(id)]++
		}
	}
	var found int64
	for size, n := range gone {
		if n*2 == g.count && (holds(size, g.size) || holds(size, prompt)) {
			if found != 0 {
				return 0
			}
			found = size
		}
	}
	return found
}

// holds tells whether a block has room for queries, which may have more heads than
// keys, and for keys and values.
func holds(block, keys int64) bool { return keys > 0 && block >= 3*keys && block%keys == 0 }

// generates turns loops that only run forward and keep a growing cache into
// generation. Models fill a cache in training, too: a pass that keeps what backward
// would need, and no cache grows, is the first of one that failed.
func generates(a *analysis) {
	if a.trains || a.saves && len(a.growing) == 0 {
		return
	}
	cached := findWindows(a) || findNamed(a) || findStatic(a) || len(a.growing) > 0 || findPool(a) || findRequested(a)
	for i := 0; i < len(a.Category) && !cached && a.all&frames.Cache != 0; i++ {
		id := timeline.AllocationID(i)
		cached = a.birth(id).Marks&frames.Cache != 0 && a.Phase[i] == Forward
	}
	if !cached {
		return
	}
	for i := a.loop; i < a.last; i++ {
		if a.phases[i] == Forward || a.phases[i] == Data || a.phases[i] == OtherPhase {
			a.phases[i] = Generate
		}
	}
	for r := range a.runs {
		a.runs[r].phase = a.phases[a.runs[r].first]
	}
	a.assignPhases()
	for i := range a.Steps {
		a.Steps[i].Phases = a.spans(a.Steps[i].FirstEvent, a.Steps[i].LastEvent+1)
	}
}

// findNamed finds caches that functions of the program's own make, going by their
// names, in a program that only runs forward: what they make and it keeps. Where a
// name doesn't say what is cached, two blocks for each of the model's layers do.
func findNamed(a *analysis) bool {
	const (
		pairs = 4
		large = 1024
		long  = 64 // events
		kinds = 16 // of one model's caches, at most
	)
	if a.all&(frames.OwnCache|frames.AnyCache) == 0 {
		return false
	}
	found := false
	keep := func(ids ...timeline.AllocationID) {
		found = true
		for _, id := range ids {
			a.kept[id] = true
		}
	}
	alike := map[int64][]timeline.AllocationID{} // by size, of one request
	type kind struct{ size, count int64 }
	known := map[kind]bool{}
	judge := func(n int64) {
		ids := alike[n]
		delete(alike, n)
		if len(ids) < pairs || len(ids)%2 != 0 {
			return
		}
		k := kind{n, int64(len(ids))}
		if _, seen := known[k]; !seen && len(known) < kinds {
			known[k] = hasLayers(a, len(ids)/2, n)
		}
		if known[k] {
			keep(ids...)
		}
	}
	for i := range a.Category {
		id := timeline.AllocationID(i)
		m, n := a.birth(id).Marks, a.t.Requested(id)
		if m&(frames.OwnCache|frames.AnyCache) == 0 || n < large || !a.outlives(id) && a.freed(id)-a.born(id) < long {
			continue
		}
		if m&frames.OwnCache != 0 {
			keep(id)
			continue
		}
		if ids := alike[n]; len(ids) > 0 && a.freed(ids[0]) <= a.born(id) {
			judge(n)
		}
		alike[n] = append(alike[n], id)
	}
	for _, n := range slices.Sorted(maps.Keys(alike)) {
		judge(n)
	}
	return found
}

// hasLayers tells whether a model has so many layers, going by how often the sizes
// of most of its weights recur; what has another size beside them isn't one of them.
func hasLayers(a *analysis, layers int, beside int64) bool {
	const large = 64 << 10 // norms and biases may be as large as each other
	var common, bytes, all int64
	for n, count := range a.weightSize {
		if n == beside || n < large || count < layers {
			continue
		}
		all += n * int64(count)
		if count%layers == 0 {
			common = row(common, int64(count))
			bytes += n * int64(count)
		}
	}
	return common == int64(layers) && bytes*4 >= all*3
}

// findStatic finds caches of full length that are made once, in the first pass of
// a program that only runs forward or of each of its requests: blocks of one size
// in numbers that stay for the passes that follow. Beside a cache that grows, those
// are what a decoder's layers keep of the encoder's result, one or two for each.
func findStatic(a *analysis) bool {
	const (
		pairs, passes = 8, 3
		layer         = 8 // events between two of them at least: adapters are loaded in one go
	)
	if a.saves || len(a.Steps) < passes {
		return false
	}
	found, grown := false, grownBlocks(a)
	for k := range a.Steps { // each a pass, or a request
		first, last := max(a.loop, a.Steps[k].FirstEvent), a.Steps[k].LastEvent
		bySize := map[int64][]timeline.AllocationID{}
		for i := first; i <= last; i++ {
			n := a.events.Size[i]
			if a.events.Action[i] != snapshot.Alloc || n < 1024 || a.freed(a.t.Of[i])-i < (last-first)/2 {
				continue
			}
			if e := a.birth(a.t.Of[i]); !a.recorded.allocs || e.Marks&frames.UserInner != 0 && e.Marks&frames.Weight == 0 {
				bySize[n] = append(bySize[n], a.t.Of[i])
			}
		}
		for _, ids := range bySize {
			crossed := len(ids) >= pairs/2 && slices.ContainsFunc(grown, func(n int) bool {
				return len(ids) == n ||
					len(ids)*2 == n
			})
			if !crossed && (len(ids) < pairs || len(ids)%2 != 0 || len(a.growing) > 0) {
				continue
			}
			gone, stay := a.last, true
			for _, id := range ids {
				gone, stay = min(gone, a.freed(id)), stay && a.outlives(id)
			}
			pass := a.born(ids[len(ids)-1]) - a.born(ids[0])
			if k == 0 && stay && !crossed || pass > layer*len(ids) && gone-a.born(ids[0]) > (passes+1)*pass &&
				(crossed || paired(a, ids)) {
				found = true
				for _, id := range ids {
					a.kept[id] = true
				}
			}
		}
	}
	return found
}

// grownBlocks are the numbers of blocks that caches grow by at a time: keys and values
// of each layer.
func grownBlocks(a *analysis) (out []int) {
	for _, c := range a.chains {
		if n := c[0].count; !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// findKept finds keys and values that a model keeps in training because its
// cache is on: in recordings without stacks, an even number of blocks of one
// size that outlives each backward pass while everything else is freed.
func findKept(a *analysis) {
	if a.recorded.allocs || !a.trains {
		return
	}
	whole, found := false, false // a backward pass to its end; keys and values
	for r := range a.runs {
		p := a.backwardAfter(r)
		if a.runs[r].phase != Forward || p == nil {
			continue
		}
		if whole && !found && (isCut(a, p) || a.backwardAfter(a.run(p.end)) == nil) {
			continue // it hasn't come to what was saved first, or a list has kept what a cache doesn't
		}
		whole = whole || !isCut(a, p)
		survivors := map[int64][]timeline.AllocationID{}
		saved := 0
		for i := a.runs[r].first; i < a.runs[r].end; i++ {
			if a.events.Action[i] != snapshot.Alloc || a.events.Size[i] <= 64 {
				continue
			}
			id := a.t.Of[i]
			switch f := a.freed(id); {
			case f >= a.last && a.backwardAfter(a.run(p.end)) != nil: // a cache is replaced in the next pass
			case f >= p.end:
				survivors[a.events.Size[i]] = append(survivors[a.events.Size[i]], id)
			case f >= p.first:
				saved++
			}
		}
		for _, ids := range survivors {
			if len(ids) >= 4 && len(ids)*3 < saved && len(survivors) <= 6 && paired(a, ids) && dropped(a, ids) {
				found = true
				for _, id := range ids {
					a.kept[id] = true
				}
			}
		}
	}
}

// dropped tells whether allocations go in one go: what a backward pass frees goes
// bit by bit, while it makes gradients.
func dropped(a *analysis, ids []timeline.AllocationID) bool {
	first, end := a.last, 0
	for _, id := range ids {
		first, end = min(first, a.freed(id)), max(end, a.freed(id))
	}
	return !slices.Contains(a.events.Action[first:end], snapshot.Alloc)
}

// paired tells whether allocations come two by two, a key and a value of each
// layer, with more between the pairs than within them; what an encoder hands to
// a decoder may be one more before them.
func paired(a *analysis, ids []timeline.AllocationID) bool {
	ids = ids[len(ids)%2:]
	for i := 2; i < len(ids); i += 2 {
		between := a.born(ids[i]) - a.born(ids[i-1])
		if a.born(ids[i-1])-a.born(ids[i-2]) >= between || a.born(ids[i+1])-a.born(ids[i]) >= between {
			return false
		}
	}
	return true
}

// isGrowing tells whether an allocation is part of a cache that grows.
func isGrowing(a *analysis, id timeline.AllocationID) bool {
	if a.Phase[id] != Generate && a.Phase[id] != Forward {
		return false
	}
	at := a.growing[a.t.Requested(id)]
	i := sort.SearchInts(at, a.born(id)) // the first one it may have seen
	return i < len(at) && goes(a, id) > at[i]
}

var growingCache = &Rule{
	ID: "kv-cache-growing",
	Doc: `One of equal numbers of blocks of sizes that rise by the same amount, each freed only after the next
size is there: a key-value cache that grows by concatenation.`,
	Signal: BySize,
	Born:   bornIn(Forward, Generate),
	Needs:  []Need{Rows, Sizes, Lives},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		if len(a.growing) == 0 {
			return nil
		}
		return func(id timeline.AllocationID) claim {
			if !isGrowing(a, id) {
				return claim{}
			}
			return as(KVCache, strong)
		}
	},
}

var cacheRow = &Rule{
	ID: "kv-cache-row",
	Doc: `One of a row of equal blocks, one or two for each of the model's layers, that stay from pass to pass
while all else goes: keys and values of a cache that is made whole, or that training passes keep (use_cache).`,
	Signal: ByLife,
	Born:   bornIn(Setup, Data, Forward, Generate),
	Needs:  []Need{Rows, Lives},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		if !slices.Contains(a.kept, true) {
			return nil
		}
		return func(id timeline.AllocationID) claim {
			if !a.kept[id] {
				return claim{}
			}
			return as(KVCache, plausible)
		}
	},
}
