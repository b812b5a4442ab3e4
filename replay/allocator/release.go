package allocator

// EmptyCache gives every cached segment and page back (release_cached_blocks).
func (a *Allocator) EmptyCache() {
	for id := range a.pending { // they only wait for other streams
		a.Free(id)
	}
	clear(a.pending)
	for i := range a.arenas {
		ar := &a.arenas[i]
		if ar.pool != 0 && !ar.orphaned {
			continue // a private pool in use keeps what it has
		}
		var whole, mapped []BlockID
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

// Orphan notes that the owner of a private pool gave it up: its cache may go.
func (a *Allocator) Orphan(pool uint16) {
	for i := range a.arenas {
		a.arenas[i].orphaned = a.arenas[i].orphaned || a.arenas[i].pool == pool
	}
}

// freeSegment gives a segment that is one free block back to the driver.
func (a *Allocator) freeSegment(id BlockID) {
	b := a.blocks[id]
	a.uncache(id)
	a.device.free(b.address, b.size)
	a.Reserved -= b.size
	a.Segments--
	a.Calls++
	a.dropBlock(id)
}

// releaseOversize frees cached blocks that max_split_size keeps from being
// used for anything smaller, until they sum up to the request
// (release_available_cached_blocks).
func (a *Allocator) releaseOversize(q Request) bool {
	if a.MaxSplit == 0 {
		return false
	}
	ar := &a.arenas[q.arena]
	want := max(q.Bytes, a.MaxSplit)
	if k, ok := ar.free.from(key{size: want}); ok && a.blocks[k.block].range_ == 0 {
		if !a.blocks[k.block].whole() {
			return false
		}
		a.freeSegment(k.block)
		return true
	}
	var released int64
	k, ok := ar.free.before(key{size: Unlimited})
	for ok && released < want && k.size >= a.MaxSplit {
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
func (a *Allocator) collectGarbage() {
	threshold := int64(a.GCThreshold * float64(a.limit))
	target := a.Reserved - threshold
	if target <= 0 {
		return
	}
	var candidates []BlockID
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
	for freed, before := true, a.Reserved; freed && count > 0 && before-a.Reserved < target; {
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
func (a *Allocator) age(id BlockID) int64 {
	b := &a.blocks[id]
	return int64(a.clock[a.arenas[b.arena].pool] - b.born)
}
