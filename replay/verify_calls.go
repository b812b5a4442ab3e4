package replay

import "fmt"

func (v *verifier) segmentAlloc(i int) {
	address, bytes := v.events.Address[i], v.events.Size[i]
	r, where, ok := v.request(i)
	if !ok {
		return // the recording ends before the request
	}
	found := v.a.fit(where, r)
	v.call(found == 0 && bytes == v.a.set.segmentFor(r), i,
		"a segment of %d bytes for a block of %d, where the replay %s", bytes, r, v.expected(found, r))
	if v.index[address] != 0 {
		return
	}
	if v.fresh != 0 {
		v.a.cache(v.fresh)
	}
	v.fresh = v.a.addSegment(where, address, bytes)
	v.index[address] = v.fresh
}

func (v *verifier) expected(found blockID, r int64) string {
	if found == 0 {
		return fmt.Sprintf("asks the driver for %d bytes", v.a.set.segmentFor(r))
	}
	return fmt.Sprintf("uses the free block at %#x of %d bytes", v.a.blocks[found].address, v.a.blocks[found].size)
}

func (v *verifier) segmentFree(i int) {
	id := v.index[v.events.Address[i]]
	right := id != 0 && v.a.blocks[id].state == free && v.a.blocks[id].whole() && v.a.blocks[id].size == v.events.Size[i]
	v.call(right, i, "the segment at %#x of %d bytes is freed, in which the replay has blocks in use", v.events.Address[i],
		v.events.Size[i])
	if !right {
		return
	}
	delete(v.index, v.events.Address[i])
	v.a.freeSegment(id)
}

func (v *verifier) segmentMap(i int) {
	address, bytes := v.events.Address[i], v.events.Size[i]
	r, where, ok := v.request(i)
	if !ok {
		return
	}
	if found := v.a.fit(where, r); found != 0 {
		v.call(false, i, "pages are mapped for a block of %d bytes, where the replay %s", r, v.expected(found, r))
	} else {
		at, size := v.foretellMap(where, r, address)
		v.call(at == address && size == bytes, i, "%d bytes are mapped at %#x for a block of %d, where the replay maps %d at %#x",
			bytes, address, r, size, at)
	}
	v.mapAt(where, address, bytes)
}

// pressed notes what the driver, or a memory fraction, refused before cached
// memory was given back.
func (v *verifier) pressed(b *burst) {
	if b.cause != byPressure {
		return
	}
	r, where, ok := v.request(b.first)
	if !ok || v.a.fit(where, r) != 0 {
		return
	}
	bytes := v.a.set.segmentFor(r)
	if v.a.set.Expandable {
		_, bytes = v.foretellMap(where, r, 0)
	}
	v.refused = min(v.refused, b.reserved+bytes)
}

// foretellMap is the next map call for a request. In a range of its own, of
// which nothing is known yet, an address can't be wrong.
func (v *verifier) foretellMap(where uint32, r int64, recorded uint64) (uint64, int64) {
	page := v.a.set.page(v.a.arenas[where].small)
	id := v.a.candidate(where, r)
	if id == 0 {
		return recorded, (r + page - 1) / page * page
	}
	want := r
	if b := &v.a.blocks[id]; b.state == free {
		want -= b.size
		id = b.next
	}
	b := &v.a.blocks[id]
	return b.address, min((min(want, b.size)+page-1)/page*page, b.size)
}

// mapAt maps pages where the recording says so.
func (v *verifier) mapAt(where uint32, address uint64, bytes int64) {
	holes := &v.a.arenas[where].holes
	k, ok := holes.before(key{address: address + 1})
	if !ok || address-k.address >= uint64(v.a.blocks[k.block].size) {
		if v.blockAt(address) != 0 {
			return
		}
		v.a.ranges = append(v.a.ranges, addressRange{address})
		id := v.a.newBlock(block{address: address, size: 1 << 45, range_: uint32(len(v.a.ranges) - 1), age: v.a.nextAge(),
			arena: uint16(where), state: unmapped})
		v.a.addHole(id)
		k = key{address: address, block: id}
	}
	id := k.block
	if front := int64(address - k.address); front > 0 {
		v.a.dropHole(id)
		rest := v.a.cut(id, front)
		v.a.addHole(id)
		v.a.addHole(rest)
		id = rest
	}
	if bytes > v.a.blocks[id].size || bytes <= 0 {
		return
	}
	v.a.mapHole(id, bytes)
}

func (v *verifier) segmentUnmap(i int) {
	address, bytes := v.events.Address[i], v.events.Size[i]
	if v.pages == nil {
		v.findPages()
	}
	id, ok := v.pages[address]
	if !ok {
		v.call(false, i, "%d bytes are unmapped at %#x, which the replay doesn't have free there", bytes, address)
		return
	}
	_, had := v.a.pages(id)
	v.call(had == bytes, i, "%d bytes are unmapped at %#x, where the replay unmaps %d", bytes, address, had)
	if bytes <= 0 || bytes > had {
		return
	}
	v.a.unmapPart(id, address, bytes)
}

// findPages finds what emptying the cache would unmap.
func (v *verifier) findPages() {
	v.pages = map[uint64]blockID{}
	for i := range v.a.arenas {
		v.a.arenas[i].free.each(func(k key) {
			if v.a.blocks[k.block].range_ == 0 {
				return
			}
			if begin, bytes := v.a.pages(k.block); bytes > 0 {
				v.pages[begin] = k.block
			}
		})
	}
}
