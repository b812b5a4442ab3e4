package allocator

// Follower is an allocator that goes the way of a recording: it foretells each step
// and then takes over what was recorded, so that one surprise doesn't make others.
type Follower struct {
	*Allocator
	segments map[uint64]BlockID // by address: the first block of each ordinary one
	fresh    BlockID            // a new segment's block, until its request comes
	searched int
	unmaps   map[uint64]BlockID // what emptying the cache would unmap, by address
}

// Follow begins with what the allocator holds.
func (a *Allocator) Follow() *Follower {
	f := &Follower{Allocator: a, segments: map[uint64]BlockID{}}
	for id := range a.blocks {
		if b := &a.blocks[id]; b.state != unused && b.prev == 0 && b.range_ == 0 {
			f.segments[b.address] = BlockID(id)
		}
	}
	return f
}

// Fit is the free block that would serve a request; 0: the driver would be asked.
func (f *Follower) Fit(q Request) BlockID { return f.fit(q) }

// Next is the block from which a request will be served, the segment that came just
// before included; 0: the driver would be asked. Take must follow.
func (f *Follower) Next(q Request) BlockID {
	id := f.fresh
	f.fresh = 0
	if id != 0 && f.blocks[id].arena == uint16(q.arena) {
		return id
	}
	if id != 0 {
		f.cache(id)
	}
	return f.fit(q)
}

// Take gives out the block at a recorded address, where next was foretold; 0 when
// something else is there.
func (f *Follower) Take(q Request, next BlockID, address uint64) BlockID {
	if next != 0 && f.blocks[next].address == address {
		f.take(next, q.Bytes)
		return next
	}
	if next != 0 && f.blocks[next].state != free {
		f.cache(next) // a fresh segment
	}
	id := f.blockAt(address)
	if id == 0 || f.blocks[id].state != free {
		return 0
	}
	if front := int64(address - f.blocks[id].address); front > 0 {
		f.uncache(id)
		rest := f.cut(id, front)
		f.cache(id)
		f.cache(rest)
		id = rest
	}
	if f.blocks[id].size < q.Bytes {
		return 0
	}
	f.take(id, q.Bytes)
	return id
}

// maxSurprises bounds how often a recorded place is searched for.
const maxSurprises = 5000

// blockAt finds the block that an address lies in, 0 when there is none. It
// looks at all of them: it is for surprises.
func (f *Follower) blockAt(address uint64) BlockID {
	if f.searched++; f.searched > maxSurprises {
		return 0
	}
	for id := range f.blocks {
		if b := &f.blocks[id]; b.state != unused && b.state != unmapped && address-b.address < uint64(b.size) {
			return BlockID(id)
		}
	}
	return 0
}

// AddSegment takes over a segment that the driver gave for a request.
func (f *Follower) AddSegment(q Request, address uint64, bytes int64) {
	if f.segments[address] != 0 {
		return
	}
	if f.fresh != 0 {
		f.cache(f.fresh)
	}
	f.fresh = f.addSegment(q.arena, address, bytes)
	f.segments[address] = f.fresh
}

// FreeSegment takes over that a segment goes back to the driver; false where it isn't
// one free block.
func (f *Follower) FreeSegment(address uint64, bytes int64) bool {
	id := f.segments[address]
	if b := &f.blocks[id]; id == 0 || b.state != free || !b.whole() || b.size != bytes {
		return false
	}
	delete(f.segments, address)
	f.freeSegment(id)
	return true
}

// NextMap is the next map call for a request. In an expandable segment of its own, of
// which nothing is known yet, an address can't be wrong.
func (f *Follower) NextMap(q Request, recorded uint64) (uint64, int64) {
	page, want := f.page(f.arenas[q.arena].small), q.Bytes
	id := f.candidate(q)
	if id == 0 {
		return recorded, roundUp(want, page)
	}
	if b := &f.blocks[id]; b.state == free {
		want -= b.size
		id = b.next
	}
	b := &f.blocks[id]
	return b.address, min(roundUp(min(want, b.size), page), b.size)
}

// Map takes over that pages are mapped for a request.
func (f *Follower) Map(q Request, address uint64, bytes int64) {
	k, ok := f.arenas[q.arena].holes.before(key{address: address + 1})
	if !ok || address-k.address >= uint64(f.blocks[k.block].size) {
		if f.blockAt(address) != 0 {
			return
		}
		k = key{address: address, block: f.addRange(q.arena, address, f.device.rangeBytes())}
	}
	id := k.block
	if front := int64(address - k.address); front > 0 {
		f.dropHole(id)
		rest := f.cut(id, front)
		f.addHole(id)
		f.addHole(rest)
		id = rest
	}
	if 0 < bytes && bytes <= f.blocks[id].size {
		f.mapHole(id, bytes)
	}
}

// Unmap takes over that pages are unmapped, and tells how many bytes would have been,
// if any. More says that nothing happened since the last unmap call.
func (f *Follower) Unmap(address uint64, bytes int64, more bool) (had int64, ok bool) {
	if !more {
		f.findUnmaps()
	}
	id, ok := f.unmaps[address]
	if !ok {
		return 0, false
	}
	if _, had = f.pages(id); 0 < bytes && bytes <= had {
		f.unmapPart(id, address, bytes)
	}
	return had, true
}

// findUnmaps finds what emptying the cache would unmap.
func (f *Follower) findUnmaps() {
	f.unmaps = map[uint64]BlockID{}
	for i := range f.arenas {
		f.arenas[i].free.each(func(k key) {
			if f.blocks[k.block].range_ == 0 {
				return
			}
			if begin, bytes := f.pages(k.block); bytes > 0 {
				f.unmaps[begin] = k.block
			}
		})
	}
}
