package replay

// blockID is a block's place in allocator.blocks; 0 is no block.
type blockID = uint32

type state uint8

const (
	unused   state = iota // not a block at the moment
	free                  // in its arena's free tree
	used                  // given out
	pending               // its free was requested but isn't completed
	unmapped              // a range of an expandable segment without memory
)

// block is a piece of a segment.
type block struct {
	address    uint64
	size       int64
	prev, next blockID // neighbours in the segment, in address order
	range_     uint32  // index into ranges; 0: an ordinary segment
	born       uint32  // the pool's clock when the block was last freed, for garbage collection
	age        uint32  // of the segment, in the order of their creation; 0 where addresses decide
	arena      uint16
	state      state
}

// arena holds the free blocks that a request may be served from: those of one
// stream, one pool, and one of the sizes small and large.
type arena struct {
	free     tree
	plain    int    // free blocks outside of expandable segments
	holes    tree   // unmapped ranges
	pool     uint16 // index into the program's pools; 0 is the default pool
	small    bool
	orphaned bool // a private pool that its owner has given up: its cache may go
}

// addressRange is the address space of an expandable segment.
type addressRange struct{ start uint64 }

// allocator is the caching allocator of one device.
type allocator struct {
	set    Settings
	driver driver
	blocks []block
	spare  []blockID
	arenas []arena // two for each (stream, pool): small at 2i, large at 2i+1
	ranges []addressRange
	clock  []uint32 // by pool: calls of get_free_block on its large blocks
	aging  bool     // garbage collection is on
	byAge  bool     // of equal free blocks, that of the oldest segment is taken, not the lowest
	oldest uint32   // segments made so far

	reserved int64
	limit    int64              // bytes that the process may reserve, unlimited without a memory fraction
	segments int                // cudaMallocs that weren't freed
	calls    int                // of the driver
	retries  int                // requests that had to wait for cached blocks to be freed
	pending  map[blockID]uint32 // blocks that wait for other streams, with the slot of their owner

	peakReserved int64
}

// pair is a (stream, pool) that a program uses.
type pair struct {
	stream uint32
	pool   uint16
}

func newAllocator(set Settings, pairs []pair, d driver, limit int64, byAge bool) *allocator {
	a := &allocator{set: set, driver: d, blocks: make([]block, 1, 1024), ranges: make([]addressRange, 1), limit: limit,
		byAge: byAge, pending: map[blockID]uint32{}}
	pools := 1
	for _, p := range pairs {
		for _, small := range []bool{true, false} {
			a.arenas = append(a.arenas, arena{pool: p.pool, small: small})
		}
		pools = max(pools, int(p.pool)+1)
	}
	a.clock = make([]uint32, pools)
	a.aging = set.GCThreshold > 0 && limit < unlimited
	return a
}

func (a *allocator) newBlock(b block) blockID {
	if n := len(a.spare); n > 0 {
		id := a.spare[n-1]
		a.spare = a.spare[:n-1]
		a.blocks[id] = b
		return id
	}
	a.blocks = append(a.blocks, b)
	return blockID(len(a.blocks) - 1)
}

func (a *allocator) dropBlock(id blockID) {
	a.blocks[id] = block{}
	a.spare = append(a.spare, id)
}

// key is a free block's key.
func (b *block) key(id blockID) key { return key{b.size, b.address, id, b.age} }

// cache makes a block free.
func (a *allocator) cache(id blockID) {
	b := &a.blocks[id]
	b.state = free
	ar := &a.arenas[b.arena]
	if !ar.small {
		b.born = a.clock[ar.pool]
	}
	ar.free.insert(b.key(id))
	if b.range_ == 0 {
		ar.plain++
	}
}

// uncache takes a block out of its free tree.
func (a *allocator) uncache(id blockID) {
	b := &a.blocks[id]
	ar := &a.arenas[b.arena]
	ar.free.remove(b.key(id))
	if b.range_ == 0 {
		ar.plain--
	}
}

// whole tells whether a block is an entire segment.
func (b *block) whole() bool { return b.prev == 0 && b.next == 0 }

// malloc serves a request of the rounded size r; 0 when it can't be met.
func (a *allocator) malloc(r int64, of uint32) blockID {
	where := 2 * of
	if r > smallSize {
		where++
	}
	id := a.fit(where, r)
	if id == 0 {
		if a.aging {
			a.collectGarbage()
		}
		id = a.fromDriver(where, r)
		if id == 0 && a.releaseOversize(where, r) {
			id = a.fromDriver(where, r)
		}
		if id == 0 {
			a.retries++
			a.emptyCache()
			id = a.fromDriver(where, r)
		}
		if id == 0 {
			return 0
		}
	}
	a.take(id, r)
	return id
}

// take gives out a block, free or fresh from the driver, and splits off what r
// leaves of it.
func (a *allocator) take(id blockID, r int64) {
	b := &a.blocks[id]
	ar := &a.arenas[b.arena]
	was, had := b.key(id), b.state == free
	switch split := a.set.splits(ar.small, r, b.size-r); {
	case split && had:
		a.cacheAs(was, a.cut(id, r))
	case split:
		a.cache(a.cut(id, r))
	case had:
		a.uncache(id)
	}
	a.blocks[id].state = used
}

// cacheAs makes a block free in the place of a key that is no longer true.
func (a *allocator) cacheAs(was key, id blockID) {
	b := &a.blocks[id]
	b.state = free
	ar := &a.arenas[b.arena]
	if !ar.small {
		b.born = a.clock[ar.pool]
	}
	ar.free.move(was, b.key(id))
}

// cut makes a block of its own of what lies behind a block's first bytes.
func (a *allocator) cut(id blockID, size int64) blockID {
	b := a.blocks[id]
	rest := a.newBlock(block{address: b.address + uint64(size), size: b.size - size, prev: id, next: b.next,
		range_: b.range_, age: b.age, arena: b.arena, state: b.state})
	if b.next != 0 {
		a.blocks[b.next].prev = rest
	}
	a.blocks[id].size, a.blocks[id].next = size, rest
	return rest
}

// fit is the smallest free block of at least r bytes; 0 when there is none that
// may be used (get_free_block).
func (a *allocator) fit(where uint32, r int64) blockID {
	ar := &a.arenas[where]
	if a.aging && !ar.small {
		a.clock[ar.pool]++
	}
	k, ok := ar.free.from(key{size: r})
	if !ok {
		return 0
	}
	if a.blocks[k.block].range_ != 0 {
		k, ok = a.fitExpandable(ar, k)
	}
	if !ok {
		return 0
	}
	if split := a.set.maxSplit(); r < split && k.size >= split || r >= split && k.size >= r+a.set.MaxNonSplitRounding {
		return 0 // only the best fit is looked at
	}
	return k.block
}

// fitExpandable prefers, of blocks that would do, one whose free space is
// smaller when the unmapped range behind it is counted in; it stops at the
// first that is not.
func (a *allocator) fitExpandable(ar *arena, k key) (key, bool) {
	if !a.set.Expandable {
		if ar.plain == 0 {
			return key{}, false
		}
		for ok := true; ok; k, ok = ar.free.after(k) {
			if a.blocks[k.block].range_ == 0 {
				return k, true
			}
		}
		return key{}, false
	}
	room := a.roomAt(k.block)
	for {
		next, ok := ar.free.after(k)
		if !ok || a.blocks[next.block].range_ == 0 {
			return k, true
		}
		r := a.roomAt(next.block)
		if r >= room {
			return k, true
		}
		k, room = next, r
	}
}

// roomAt is a free block's size with the unmapped range behind it.
func (a *allocator) roomAt(id blockID) int64 {
	b := &a.blocks[id]
	if b.next != 0 && a.blocks[b.next].state == unmapped {
		return b.size + a.blocks[b.next].size
	}
	return b.size
}

// fromDriver is alloc_block: a new segment, or newly mapped pages.
func (a *allocator) fromDriver(where uint32, r int64) blockID {
	bytes := a.set.segmentFor(r)
	if a.reserved+bytes > a.limit {
		return 0 // even where fewer pages would do
	}
	if a.set.Expandable {
		return a.expand(where, r)
	}
	address, ok := a.driver.malloc(bytes, a.reserved)
	if !ok {
		return 0
	}
	return a.addSegment(where, address, bytes)
}

// addSegment adds a segment as one block that is in no tree.
func (a *allocator) addSegment(where uint32, address uint64, bytes int64) blockID {
	a.reserve(bytes)
	a.segments++
	return a.newBlock(block{address: address, size: bytes, age: a.nextAge(), arena: uint16(where), state: unused})
}

// nextAge numbers a new segment. Since 2026 (pull request 183591 of PyTorch)
// the allocator takes, of free blocks of equal size, that of the oldest segment.
func (a *allocator) nextAge() uint32 {
	if !a.byAge {
		return 0
	}
	a.oldest++
	return a.oldest
}

func (a *allocator) reserve(bytes int64) {
	a.calls++
	a.reserved += bytes
	a.peakReserved = max(a.peakReserved, a.reserved)
}

// release frees a block and joins it with its free neighbours.
func (a *allocator) release(id blockID) {
	b := &a.blocks[id]
	p, n := b.prev, b.next
	if n != 0 && a.blocks[n].state != free {
		n = 0
	}
	if p == 0 || a.blocks[p].state != free {
		if n == 0 {
			a.cache(id)
			return
		}
		was := a.blocks[n].key(n)
		a.swallow(id, n)
		a.cacheAs(was, id)
		return
	}
	was := a.blocks[p].key(p)
	if n != 0 {
		a.uncache(n)
		a.swallow(id, n)
	}
	a.swallow(p, id)
	a.cacheAs(was, p)
}

// swallow makes the block behind a part of it.
func (a *allocator) swallow(id, next blockID) {
	n := a.blocks[next]
	a.blocks[id].size += n.size
	a.blocks[id].next = n.next
	if n.next != 0 {
		a.blocks[n.next].prev = id
	}
	a.dropBlock(next)
}

// completePending frees what only waits for other streams.
func (a *allocator) completePending() {
	for id := range a.pending {
		a.release(id)
	}
	clear(a.pending)
}
