package allocator

// expand maps memory behind, or between, what is mapped, and gives a free
// block of at least r bytes (try_allocate_expandable_block). What
// could be mapped before the device was full stays, free.
func (a *Allocator) expand(q Request) BlockID {
	r, id := q.Bytes, a.candidate(q)
	if id == 0 {
		if r > a.device.rangeBytes() { // more than the device has: no range would do, however often it is asked for
			return 0
		}
		id = a.newRange(q.arena)
	}
	for {
		hole, want := id, r
		if b := &a.blocks[id]; b.state == free {
			if b.size >= r {
				return id
			}
			hole, want = b.next, r-b.size
			if hole == 0 || a.blocks[hole].state != unmapped {
				return 0
			}
		}
		want = min(want, a.blocks[hole].size)
		bytes := min(roundUp(want, a.page(a.arenas[q.arena].small)), a.blocks[hole].size)
		if !a.device.mapPages(bytes, a.Reserved) {
			return 0
		}
		id = a.mapHole(hole, bytes)
	}
}

// candidate is where to begin: the lowest range without memory, or the free
// block right before it, from which r bytes in a row could be had; 0 when
// there is none (find_expandable_block).
func (a *Allocator) candidate(q Request) BlockID {
	holes := &a.arenas[q.arena].holes
	for k, ok := holes.from(key{}); ok; k, ok = holes.after(k) {
		start := k.block
		if p := a.blocks[start].prev; p != 0 && a.blocks[p].state == free {
			start = p
		}
		var room int64
		for id := start; id != 0 && room < q.Bytes; id = a.blocks[id].next {
			if s := a.blocks[id].state; s != free && s != unmapped {
				break
			}
			room += a.blocks[id].size
		}
		if room >= q.Bytes {
			return start
		}
	}
	return 0
}

// newRange reserves address space for another expandable segment.
func (a *Allocator) newRange(arena uint32) BlockID {
	start, bytes := a.device.addressRange(a.page(a.arenas[arena].small))
	return a.addRange(arena, start, bytes)
}

func (a *Allocator) addRange(arena uint32, start uint64, bytes int64) BlockID {
	a.ranges = append(a.ranges, start)
	id := a.newBlock(block{address: start, size: bytes, range_: uint32(len(a.ranges) - 1), age: a.nextAge(),
		arena: uint16(arena)})
	a.addHole(id)
	return id
}

func (a *Allocator) addHole(id BlockID) {
	b := &a.blocks[id]
	b.state = unmapped
	a.arenas[b.arena].holes.insert(key{address: b.address, block: id})
}

func (a *Allocator) dropHole(id BlockID) {
	b := &a.blocks[id]
	a.arenas[b.arena].holes.remove(key{address: b.address, block: id})
}

// mapHole gives memory to the first bytes of an unmapped range and joins them
// with free neighbours; it gives the free block that results.
func (a *Allocator) mapHole(hole BlockID, bytes int64) BlockID {
	a.dropHole(hole)
	if bytes < a.blocks[hole].size {
		a.addHole(a.cut(hole, bytes))
	}
	a.reserve(bytes)
	id := hole
	if p := a.blocks[hole].prev; p != 0 && a.blocks[p].state == free {
		id = p
	}
	a.Free(hole)
	return id
}

// pages are the whole pages within a free block.
func (a *Allocator) pages(id BlockID) (begin uint64, bytes int64) {
	b := &a.blocks[id]
	page := uint64(a.page(a.arenas[b.arena].small))
	start := a.ranges[b.range_]
	first := (b.address - start + page - 1) / page * page
	last := (b.address - start + uint64(b.size)) / page * page
	if first >= last {
		return 0, 0
	}
	return start + first, int64(last - first)
}

// unmap takes the memory of the whole pages within a free block away.
func (a *Allocator) unmap(id BlockID) {
	if begin, bytes := a.pages(id); bytes > 0 {
		a.unmapPart(id, begin, bytes)
	}
}

// unmapPart takes the memory of a part of a free block away; what is left of
// the block on both sides stays free.
func (a *Allocator) unmapPart(id BlockID, begin uint64, bytes int64) {
	a.uncache(id)
	if front := int64(begin - a.blocks[id].address); front > 0 {
		rest := a.cut(id, front)
		a.cache(id)
		id = rest
	}
	if bytes < a.blocks[id].size {
		a.cache(a.cut(id, bytes))
	}
	a.Reserved -= bytes
	a.Calls++
	a.blocks[id].state = unmapped
	if p := a.blocks[id].prev; p != 0 && a.blocks[p].state == unmapped {
		a.dropHole(p)
		a.swallow(p, id)
		id = p
	}
	if n := a.blocks[id].next; n != 0 && a.blocks[n].state == unmapped {
		a.dropHole(n)
		a.swallow(id, n)
	}
	if a.blocks[id].whole() {
		a.device.dropRange(a.ranges[a.blocks[id].range_])
		a.dropBlock(id)
		return
	}
	a.addHole(id)
}

// Mapped counts the stretches of memory without a hole in expandable segments:
// a snapshot lists each as a segment.
func (a *Allocator) Mapped() int {
	n := 0
	for i := range a.blocks {
		b := &a.blocks[i]
		if b.range_ == 0 || b.state == unmapped {
			continue
		}
		if b.prev == 0 || a.blocks[b.prev].state == unmapped {
			n++
		}
	}
	return n
}
