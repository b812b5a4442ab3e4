package phases

import (
	"sort"

	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/snapshot"
)

// anchored finds the iterations of a loop that only runs forward by what recurs
// once in each: the stack, or without stacks the run of sizes, or of lives where
// batches of different sizes take turns.
func (a *Program) anchored() []int {
	var l Layers
	if !a.Recorded.Allocs {
		l = a.LayersOfModel()
	}
	starts := a.AnchoredIn(a.Loop, a.Last, &l)
	a.Checkpoints = l.checkpointed
	if len(starts) > 0 {
		return starts
	}
	return []int{a.Loop}
}

// AnchoredIn finds them between two events; none where nothing recurs.
func (a *Program) AnchoredIn(from, to int, l *Layers) []int {
	allocs := pages.Make[int](min(to-from, a.Timeline.Len()))[:0]
	for i := from; i < to; i++ {
		if a.Events.Action[i] == snapshot.Alloc {
			allocs = append(allocs, i)
		}
	}
	var starts []int
	if a.Recorded.Allocs {
		keys := pages.Make[uint32](len(allocs))
		for k, i := range allocs {
			keys[k] = uint32(a.Events.StackOf(i))
		}
		starts = recurring(allocs, keys, len(a.Stacks))
		if len(starts) == 0 { // every line asks for several
			ids := make([]int64, len(keys))
			for k, key := range keys {
				ids[k] = int64(key)
			}
			starts = RecurringRuns(allocs, ids)
		}
		if len(starts) > 0 && (!a.loops(allocs, len(starts)) || a.recursWithin(allocs, starts)) {
			starts = nil
		}
	} else {
		const most = 4 // sizes that take turns
		sizes, made := pages.Make[int64](len(allocs)), pages.Make[int64](len(allocs))
		for k, i := range allocs {
			sizes[k], made[k] = a.Events.Size[i], -1
			if f := a.Freed(a.Timeline.Of[i]); f < a.Last { // the same for batches of any size
				made[k] = int64(sort.SearchInts(allocs, f) - k)
			}
		}
		starts = RecurringRuns(allocs, sizes)
		lives := RecurringRuns(allocs, made)
		if n := len(starts); n == 0 || len(lives) <= most*n && len(lives)*2 >= n*3 {
			starts = lives
		}
		if a.layersOfOne(starts, l) {
			starts = nil
		}
	}
	return starts
}

// recurring finds those allocations whose key, one of n, has the occurrences that
// lie farthest and most evenly apart.
func recurring(allocs []int, keys []uint32, n int) []int {
	type seen struct{ first, last, count, widest, narrowest int }
	tally := make([]int, n) // by key, index into order and 1
	var order []seen        // so that the same input gives the same answer
	for k, key := range keys {
		if tally[key] == 0 {
			order = append(order, seen{first: k, last: k, count: 1, narrowest: len(keys)})
			tally[key] = len(order)
			continue
		}
		s := &order[tally[key]-1]
		gap := k - s.last
		s.widest, s.narrowest = max(s.widest, gap), min(s.narrowest, gap)
		s.last, s.count = k, s.count+1
	}
	var best *seen
	for i := range order {
		s := &order[i]
		if s.count < 3 || s.widest > s.narrowest+s.narrowest/4 || (s.last-s.first)*2 < len(keys) {
			continue
		}
		if best == nil || s.narrowest > best.narrowest || s.narrowest == best.narrowest && s.first < best.first {
			best = s
		}
	}
	if best == nil {
		return nil
	}
	var starts []int
	for k, key := range keys {
		if key == keys[best.first] {
			starts = append(starts, allocs[k])
		}
	}
	return starts
}

// loops tells a loop from the layers of a single pass: what happens
// outside all modules, or right below the model, comes back as often.
func (a *Program) loops(allocs []int, count int) bool {
	shallow := uint8(255)
	tally := make([]int, len(a.Stacks))
	for _, i := range allocs {
		id := a.Events.StackOf(i)
		if tally[id]++; tally[id] == 1 && a.Stacks[id].Depth > 0 {
			shallow = min(shallow, a.Stacks[id].Depth)
		}
	}
	if shallow == 255 {
		return true
	}
	recurring, outside := 0, 0
	for id, n := range tally {
		if n == 0 || a.Stacks[id].Depth > shallow {
			continue
		}
		outside++
		if n+1 >= count {
			recurring++
		}
	}
	return recurring*3 >= outside // the first pass may be called from another line
}

// numberAt is a number for a hash, and one that none is behind the end.
func numberAt(numbers []int64, k int) uint64 {
	if k < len(numbers) {
		return uint64(numbers[k]) + 1
	}
	return 1 << 63
}

// RecurringRuns are the recurring allocations by the numbers that they and the
// next few have.
func RecurringRuns(allocs []int, numbers []int64) []int {
	const run = 5
	base := uint64(0x9e3779b97f4a7c15)
	out := base * base * base * base * base // the factor of what leaves a run
	rolling := uint64(0)
	for k := range run - 1 {
		rolling = rolling*base + numberAt(numbers, k)
	}
	ids := map[uint64]uint32{}
	var hashes []uint64 // by id
	var after []uint32  // by id: what came after it the last time, as in a loop it will again
	keys := pages.Make[uint32](len(numbers))
	last := uint32(0)
	for k := range numbers {
		rolling = rolling*base + numberAt(numbers, k+run-1)
		if k > 0 {
			rolling -= out * numberAt(numbers, k-1)
		}
		h := rolling
		id, ok := uint32(0), false
		if k > 0 {
			id = after[last]
			ok = hashes[id] == h
		}
		if !ok {
			if id, ok = ids[h]; !ok {
				id = uint32(len(ids))
				ids[h] = id
				hashes, after = append(hashes, h), append(after, 0)
			}
			after[last] = id
		}
		keys[k], last = id, id
	}
	return recurring(allocs, keys, len(ids))
}
