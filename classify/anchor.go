package classify

import (
	"sort"

	"github.com/vramscope/vramscope/snapshot"
)

// anchored finds the iterations of a loop that only runs forward by what recurs
// once in each: the stack, or without stacks the run of sizes, or of lives where
// batches of different sizes take turns.
func (a *analysis) anchored() []int {
	allocs := make([]int, 0, min(a.last-a.loop, a.t.Len()))
	for i := a.loop; i < a.last; i++ {
		if a.events.Action[i] == snapshot.Alloc {
			allocs = append(allocs, i)
		}
	}
	var starts []int
	if a.recorded.allocs {
		starts = recurring(allocs, len(a.stacks), func(i int) uint32 { return uint32(a.events.StackOf(i)) })
		if !a.loops(allocs, len(starts)) {
			starts = nil
		}
	} else {
		const most = 4 // sizes that take turns
		starts = a.recurringRuns(allocs, func(i int) int64 { return a.events.Size[i] })
		lives := a.recurringRuns(allocs, func(i int) int64 { return a.madeUntil(i, allocs) })
		if n := len(starts); n == 0 || len(lives) <= most*n && len(lives)*2 >= n*3 {
			starts = lives
		}
	}
	if len(starts) == 0 {
		return []int{a.loop}
	}
	return starts
}

// madeUntil counts what is made while the allocation of an event lives, -1 where
// it outlives the recording: the same for batches of any size.
func (a *analysis) madeUntil(event int, allocs []int) int64 {
	f := a.freed(a.t.Of[event])
	if f >= a.last {
		return -1
	}
	return int64(sort.SearchInts(allocs, f) - sort.SearchInts(allocs, event))
}

// recurring finds those allocations with a key, below n, whose occurrences lie
// farthest and most evenly apart.
func recurring(allocs []int, n int, key func(event int) uint32) []int {
	type seen struct{ first, last, count, widest, narrowest int }
	tally := make([]int, n) // by key, index into order and 1
	var order []seen        // so that the same input gives the same answer
	for k, i := range allocs {
		at := &tally[key(i)]
		if *at == 0 {
			order = append(order, seen{first: k, last: k, count: 1, narrowest: len(allocs)})
			*at = len(order)
			continue
		}
		s := &order[*at-1]
		gap := k - s.last
		s.widest, s.narrowest = max(s.widest, gap), min(s.narrowest, gap)
		s.last, s.count = k, s.count+1
	}
	var best *seen
	for i := range order {
		s := &order[i]
		if s.count < 3 || s.widest > s.narrowest+s.narrowest/4 || (s.last-s.first)*2 < len(allocs) {
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
	for _, i := range allocs[best.first:] {
		if key(i) == key(allocs[best.first]) {
			starts = append(starts, i)
		}
	}
	return starts
}

// loops tells a loop from the layers of a single pass: what happens
// outside all modules, or right below the model, comes back as often.
func (a *analysis) loops(allocs []int, count int) bool {
	if !a.recorded.allocs {
		return true
	}
	shallow := uint8(255)
	for _, i := range allocs {
		if d := a.stacks[a.events.StackOf(i)].depth; d > 0 {
			shallow = min(shallow, d)
		}
	}
	if shallow == 255 {
		return true
	}
	tally := map[snapshot.StackID]int{}
	for _, i := range allocs {
		if id := a.events.StackOf(i); a.stacks[id].depth <= shallow {
			tally[id]++
		}
	}
	recurring := 0
	for _, n := range tally {
		if n+1 >= count {
			recurring++
		}
	}
	return recurring*3 >= len(tally) // the first pass may be called from another line
}

// recurringRuns are the recurring allocations by a number that they and the next
// few have.
func (a *analysis) recurringRuns(allocs []int, number func(event int) int64) []int {
	const run = 5
	numbers := make([]int64, len(allocs))
	for k, i := range allocs {
		numbers[k] = number(i)
	}
	ids := map[uint64]uint32{}
	keys := make([]uint32, a.t.Len())
	for k, i := range allocs {
		h := uint64(14695981039346656037)
		for _, x := range numbers[k:min(len(numbers), k+run)] {
			h = (h ^ uint64(x)) * 1099511628211
		}
		id, ok := ids[h]
		if !ok {
			id = uint32(len(ids))
			ids[h] = id
		}
		keys[a.t.Of[i]] = id
	}
	return recurring(allocs, len(ids), func(event int) uint32 { return keys[a.t.Of[event]] })
}
