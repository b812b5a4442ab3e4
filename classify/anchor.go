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
	keys := a.anchorKeys(allocs)
	type seen struct{ first, last, count, widest, narrowest int }
	tally := map[uint64]*seen{}
	var order []*seen // so that the same input gives the same answer
	for k, key := range keys {
		s := tally[key]
		if s == nil {
			s = &seen{first: k, last: k, count: 1, narrowest: len(keys)}
			tally[key], order = s, append(order, s)
			continue
		}
		gap := k - s.last
		s.widest, s.narrowest = max(s.widest, gap), min(s.narrowest, gap)
		s.last, s.count = k, s.count+1
	}
	var best *seen
	for _, s := range order {
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

// anchorKeys are what is compared: the stack, or a hash of the next sizes.
func (a *analysis) anchorKeys(allocs []int) []uint64 {
	keys := make([]uint64, len(allocs))
	const run = 5
	for k, i := range allocs {
		if a.recorded.allocs {
			keys[k] = uint64(a.events.StackOf(i))
			continue
		}
		h := uint64(14695981039346656037)
		for _, j := range allocs[k:min(len(allocs), k+run)] {
			h = (h ^ uint64(a.events.Size[j])) * 1099511628211
		}
		keys[k] = h
	}
	return keys
}
