package classify

import "github.com/vramscope/vramscope/snapshot"

// anchored finds the iterations of a loop that only runs forward by what recurs
// once in each: the stack, or without stacks the run of sizes, whose
// occurrences lie farthest and most evenly apart.
func (a *analysis) anchored() []int {
	allocs := make([]int, 0, min(a.last-a.loop, a.t.Len()))
	for i := a.loop; i < a.last; i++ {
		if a.events.Action[i] == snapshot.Alloc {
			allocs = append(allocs, i)
		}
	}
	keys, n := a.anchorKeys(allocs)
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
	if best == nil || !a.loops(allocs, best.count) {
		return []int{a.loop}
	}
	key := keys[best.first]
	var starts []int
	for k := best.first; k < len(keys); k++ {
		if keys[k] == key {
			starts = append(starts, allocs[k])
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

// anchorKeys are what is compared: the stack, or a number for each hash of the
// next sizes. They are below n.
func (a *analysis) anchorKeys(allocs []int) (keys []uint32, n int) {
	keys = make([]uint32, len(allocs))
	if a.recorded.allocs {
		for k, i := range allocs {
			keys[k] = uint32(a.events.StackOf(i))
		}
		return keys, len(a.stacks)
	}
	const run = 5
	numbers := map[uint64]uint32{}
	for k := range allocs {
		h := uint64(14695981039346656037)
		for _, j := range allocs[k:min(len(allocs), k+run)] {
			h = (h ^ uint64(a.events.Size[j])) * 1099511628211
		}
		number, ok := numbers[h]
		if !ok {
			number = uint32(len(numbers))
			numbers[h] = number
		}
		keys[k] = number
	}
	return keys, len(numbers)
}
