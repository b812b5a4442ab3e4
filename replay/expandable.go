package replay

// expand maps memory behind, or between, what is mapped, and gives a free
// block of at least r bytes (try_allocate_expandable_block). What
// could be mapped before the device was full stays, free.
func (a *allocator) expand(where uint32, r int64) blockID {
	id := a.candidate(where, r)
	if id == 0 {
		if r > a.driver.rangeBytes() { // more than the device has: no range would do, however often it is asked for
			return 0
		}
		id = a.newRange(where)
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
		page := a.set.page(a.arenas[where].small)
		bytes := min((want+page-1)/page*page, a.blocks[hole].size)
		if !a.driver.mapPages(bytes, a.reserved) {
			return 0
		}
		id = a.mapHole(hole, bytes)
	}
}

// candidate is where to begin: the lowest range without memory, or the free
// block right before it, from which r bytes in a row could be had; 0 when
// there is none (find_expandable_block).
func (a *allocator) candidate(where uint32, r int64) blockID {
	holes := &a.arenas[where].holes
	for k, ok := holes.from(key{}); ok; k, ok = holes.after(k) {
		start := k.block
		if p := a.blocks[start].prev; p != 0 && a.blocks[p].state == free {
			start = p
		}
		var room int64
		for id := start; id != 0 && room < r; id = a.blocks[id].next {
			if s := a.blocks[id].state; s != free && s != unmapped {
				break
			}
			room += a.blocks[id].size
		}
		if room >= r {
			return start
		}
	}
	return 0
}

// newRange reserves address space for another expandable segment.
func (a *allocator) newRange(where uint32) blockID {
	page := a.set.page(a.arenas[where].small)
	start, bytes := a.driver.addressRange(page)
	a.ranges = append(a.ranges, addressRange{start})
	id := a.newBlock(block{address: start, size: bytes, range_: uint32(len(a.ranges) - 1), age: a.nextAge(), arena: uint16(where),
		state: unmapped})
	a.addHole(id)
	return id
}

func (a *allocator) addHole(id blockID) {
	b := &a.blocks[id]
	b.state = unmapped
	a.arenas[b.arena].holes.insert(key{address: b.address, block: id})
}

func (a *allocator) dropHole(id blockID) {
	b := &a.blocks[id]
	a.arenas[b.arena].holes.remove(key{address: b.address, block: id})
}

// mapHole gives memory to the first bytes of an unmapped range and joins them
// with free neighbours; it gives the free block that results.
func (a *allocator) mapHole(hole blockID, bytes int64) blockID {
	a.dropHole(hole)
	if bytes < a.blocks[hole].size {
		a.addHole(a.cut(hole, bytes))
	}
	a.reserve(bytes)
	id := hole
	if p := a.blocks[hole].prev; p != 0 && a.blocks[p].state == free {
		id = p
	}
	a.release(hole)
	return id
}

// pages are the whole pages within a free block.
func (a *allocator) pages(id blockID) (begin uint64, bytes int64) {
	b := &a.blocks[id]
	page := uint64(a.set.page(a.arenas[b.arena].small))
	start := a.ranges[b.range_].start
	first := (b.address - start + page - 1) / page * page
	last := (b.address - start + uint64(b.size)) / page * page
	if first >= last {
		return 0, 0
	}
	return start + first, int64(last - first)
}

// unmap takes the memory of the whole pages within a free block away.
func (a *allocator) unmap(id blockID) {
	if begin, bytes := a.pages(id); bytes > 0 {
		a.unmapPart(id, begin, bytes)
	}
}

// unmapPart takes the memory of a part of a free block away; what is left of
// the block on both sides stays free.
func (a *allocator) unmapPart(id blockID, begin uint64, bytes int64) {
	a.uncache(id)
	if front := int64(begin - a.blocks[id].address); front > 0 {
		rest := a.cut(id, front)
		a.cache(id)
		id = rest
	}
	if bytes < a.blocks[id].size {
		a.cache(a.cut(id, bytes))
	}
	a.reserved -= bytes
	a.calls++
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
		a.driver.dropRange(a.ranges[a.blocks[id].range_].start)
		a.dropBlock(id)
		return
	}
	a.addHole(id)
}

// mapped counts the stretches of memory without a hole in expandable segments:
// a snapshot lists each as a segment.
func (a *allocator) mapped() int {
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

// resume continues the range of an arena at an address, or begins one there:
// what lies between its mapped parts is unmapped. Parts come in the order of
// their addresses.
func (a *allocator) resume(ranges map[uint32]blockID, where uint32, address uint64) (index uint32, last blockID) {
	last = ranges[where]
	if last == 0 {
		a.ranges = append(a.ranges, addressRange{address})
		return uint32(len(a.ranges) - 1), 0
	}
	b := a.blocks[last]
	end := b.address + uint64(b.size)
	if address > end {
		id := a.newBlock(block{address: end, size: int64(address - end), prev: last, range_: b.range_, age: b.age,
			arena: b.arena})
		a.blocks[last].next = id
		a.addHole(id)
		last = id
	}
	return b.range_, last
}

// endRange adds the unmapped rest behind a range's last block.
func (a *allocator) endRange(last blockID, d *device) {
	b := a.blocks[last]
	page := a.set.page(a.arenas[b.arena].small)
	start, bytes := d.addressRange(page)
	d.dropRange(start)
	rest := bytes - int64(b.address+uint64(b.size)-a.ranges[b.range_].start)
	if rest <= 0 {
		return
	}
	id := a.newBlock(block{address: b.address + uint64(b.size), size: rest / page * page, prev: last, range_: b.range_,
		age: b.age, arena: b.arena})
	a.blocks[last].next = id
	a.addHole(id)
}
