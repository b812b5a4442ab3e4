package replay

// emptyCache gives every cached segment and page back (release_cached_blocks).
func (a *allocator) emptyCache() {
	a.completePending()
	for i := range a.arenas {
		ar := &a.arenas[i]
		if ar.pool != 0 && !ar.orphaned {
			continue // a private pool in use keeps what it has
		}
		var whole, mapped []blockID
		ar.free.each(func(k key) {
			switch b := &a.blocks[k.block]; {
			case b.range_ != 0:
				mapped = append(mapped, k.block)
			case b.whole():
				whole = append(whole, k.block)
			}
		})
		for _, id := range whole {
			a.freeSegment(id)
		}
		for _, id := range mapped {
			a.unmap(id)
		}
	}
}

// freeSegment gives a segment that is one free block back to the driver.
func (a *allocator) freeSegment(id blockID) {
	b := a.blocks[id]
	a.uncache(id)
	a.driver.free(b.address, b.size)
	a.reserved -= b.size
	a.segments--
	a.calls++
	a.dropBlock(id)
}

// releaseOversize frees cached blocks that max_split_size keeps from being
// used for anything smaller, until they sum up to the request
// (release_available_cached_blocks).
func (a *allocator) releaseOversize(where uint32, r int64) bool {
	if a.set.MaxSplit == 0 {
		return false
	}
	ar := &a.arenas[where]
	want := max(r, a.set.MaxSplit)
	if k, ok := ar.free.from(key{size: want}); ok && a.blocks[k.block].range_ == 0 {
		if !a.blocks[k.block].whole() {
			return false
		}
		a.freeSegment(k.block)
		return true
	}
	var released int64
	k, ok := ar.free.before(key{size: unlimited})
	for ok && released < want && k.size >= a.set.MaxSplit {
		next, more := ar.free.before(k)
		if b := &a.blocks[k.block]; b.range_ == 0 && b.whole() {
			released += k.size
			a.freeSegment(k.block)
		}
		k, ok = next, more
	}
	return released >= want
}

// collectGarbage frees whole large blocks that have not been used for longer
// than the average, until reserved memory is below the threshold
// (garbage_collect_cached_blocks). A sweep doesn't stop half way.
func (a *allocator) collectGarbage() {
	threshold := int64(a.set.GCThreshold * float64(a.limit))
	target := a.reserved - threshold
	if target <= 0 {
		return
	}
	var candidates []blockID
	var age int64
	for i := range a.arenas {
		if ar := &a.arenas[i]; ar.pool == 0 && !ar.small {
			ar.free.each(func(k key) {
				if b := &a.blocks[k.block]; b.whole() {
					candidates = append(candidates, k.block)
					age += a.age(k.block)
				}
			})
		}
	}
	count := len(candidates)
	for freed, before := true, a.reserved; freed && count > 0 && before-a.reserved < target; {
		mean := float64(age) / float64(count)
		freed = false
		rest := candidates[:0]
		for _, id := range candidates {
			if a.blocks[id].range_ != 0 || float64(a.age(id)) < mean {
				rest = append(rest, id)
				continue
			}
			freed = true
			age -= a.age(id)
			count--
			a.freeSegment(id)
		}
		candidates = rest
	}
}

// age is how many requests the pool has served since a block was freed.
func (a *allocator) age(id blockID) int64 {
	b := &a.blocks[id]
	return int64(a.clock[a.arenas[b.arena].pool] - b.born)
}
