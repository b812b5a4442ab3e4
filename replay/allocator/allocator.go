// Package allocator is the algorithm of PyTorch's caching allocator for one device
// (c10/cuda/CUDACachingAllocator.cpp; doc/allocator.md describes it): the native one
// and expandable segments, under the settings of PYTORCH_CUDA_ALLOC_CONF.
//
//	set, _, err := allocator.ParseConf("expandable_segments:True")
//	a := allocator.New(set, []allocator.Pair{{}}, allocator.GPU{Usable: 24 << 30}, true)
//	id := a.Malloc(a.Request(5<<20, 0)) // 0: out of memory
//	a.Free(id)
//	fmt.Println(a.Reserved) // 20 MiB stay in the cache
//
// A Follower goes the way of a recording instead, and foretells each step.
package allocator

// BlockID names a block of an Allocator; 0 is no block.
type BlockID = uint32

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
	prev, next BlockID // neighbours in the segment, in address order
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

// Allocator is the caching allocator of one device.
type Allocator struct {
	Settings
	Stats
	device device
	blocks []block
	spare  []BlockID
	arenas []arena  // two for each Pair: small at 2i, large at 2i+1
	ranges []uint64 // where the address space of each expandable segment begins
	clock  []uint32 // by pool: calls of get_free_block on its large blocks
	aging  bool     // garbage collection is on
	byAge  bool     // of equal free blocks, that of the oldest segment is taken, not the lowest
	oldest uint32   // segments made so far

	limit   int64              // bytes that the process may reserve, Unlimited without a memory fraction
	pending map[BlockID]uint32 // blocks that wait for other streams, with their owner
}

// Stats are an allocator's counters; bytes.
type Stats struct {
	Reserved, PeakReserved int64
	Segments               int // cudaMallocs that weren't freed
	Calls                  int // of the driver
	Retries                int // requests that had to wait for cached blocks to be freed
}

// Pair is a stream and a pool that a program uses: no two share free blocks.
type Pair struct {
	Stream uint32
	Pool   uint16
}

// GPU is what a process may have of a device, in bytes.
type GPU struct {
	Total   int64 // of the device, which decides the size of expandable segments; 0: not known
	Usable  int64 // by PyTorch in all; 0: no limit
	Allowed int64 // by a memory fraction; 0: no limit
}

// New is an allocator that holds nothing yet. Since 2026 (pull request 183591 of
// PyTorch) the allocator takes, of free blocks of equal size, that of the oldest
// segment; before, the one at the lowest address.
func New(set Settings, pairs []Pair, gpu GPU, byAge bool) *Allocator {
	a := &Allocator{Settings: set, device: newDevice(orUnlimited(gpu.Usable), gpu.Total), limit: orUnlimited(gpu.Allowed),
		blocks: make([]block, 1, 1024), ranges: make([]uint64, 1), byAge: byAge, pending: map[BlockID]uint32{}}
	pools := 1
	for _, p := range pairs {
		a.arenas = append(a.arenas, arena{pool: p.Pool, small: true}, arena{pool: p.Pool})
		pools = max(pools, int(p.Pool)+1)
	}
	a.clock = make([]uint32, pools)
	a.aging = set.GCThreshold > 0 && a.limit < Unlimited
	return a
}

func orUnlimited(bytes int64) int64 {
	if bytes <= 0 {
		return Unlimited
	}
	return bytes
}

// Size is a block's bytes.
func (a *Allocator) Size(id BlockID) int64 { return a.blocks[id].size }

// Address is where a block begins.
func (a *Allocator) Address(id BlockID) uint64 { return a.blocks[id].address }

// InUse reports whether a block is given out, and its free not requested yet.
func (a *Allocator) InUse(id BlockID) bool { return a.blocks[id].state == used }

// Request is what is asked of an allocator.
type Request struct {
	Bytes int64  // rounded
	arena uint32 // that serves it
}

// Request is a request of so many bytes by one of the allocator's pairs.
func (a *Allocator) Request(bytes int64, pair uint16) Request {
	q := Request{Bytes: a.Round(bytes), arena: 2 * uint32(pair)}
	if q.Bytes > smallSize {
		q.arena++
	}
	return q
}

func (a *Allocator) newBlock(b block) BlockID {
	if n := len(a.spare); n > 0 {
		id := a.spare[n-1]
		a.spare = a.spare[:n-1]
		a.blocks[id] = b
		return id
	}
	a.blocks = append(a.blocks, b)
	return BlockID(len(a.blocks) - 1)
}

func (a *Allocator) dropBlock(id BlockID) {
	a.blocks[id] = block{}
	a.spare = append(a.spare, id)
}

// key is a free block's key.
func (b *block) key(id BlockID) key { return key{b.size, b.address, id, b.age} }

// cache makes a block free.
func (a *Allocator) cache(id BlockID) {
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
func (a *Allocator) uncache(id BlockID) {
	b := &a.blocks[id]
	ar := &a.arenas[b.arena]
	ar.free.remove(b.key(id))
	if b.range_ == 0 {
		ar.plain--
	}
}

// whole reports whether a block is an entire segment.
func (b *block) whole() bool { return b.prev == 0 && b.next == 0 }

// Malloc serves a request; 0 when it can't be met.
func (a *Allocator) Malloc(q Request) BlockID {
	id := a.fit(q)
	if id == 0 {
		if id = a.fromCacheOrDriver(q); id == 0 {
			return 0
		}
	}
	a.take(id, q.Bytes)
	return id
}

// fromCacheOrDriver serves a request for which no free block is there, giving cached
// memory back to the driver where that has no more to give.
func (a *Allocator) fromCacheOrDriver(q Request) BlockID {
	if a.aging {
		a.collectGarbage()
	}
	id := a.fromDriver(q)
	if id == 0 && a.releaseOversize(q) {
		id = a.fromDriver(q)
	}
	if id == 0 {
		a.Retries++
		a.EmptyCache()
		id = a.fromDriver(q)
	}
	return id
}

// take gives out a block, free or fresh from the driver, and splits off what r
// leaves of it.
func (a *Allocator) take(id BlockID, r int64) {
	b := &a.blocks[id]
	ar := &a.arenas[b.arena]
	was, had := b.key(id), b.state == free
	switch split := a.splits(ar.small, r, b.size-r); {
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
func (a *Allocator) cacheAs(was key, id BlockID) {
	b := &a.blocks[id]
	b.state = free
	ar := &a.arenas[b.arena]
	if !ar.small {
		b.born = a.clock[ar.pool]
	}
	ar.free.move(was, b.key(id))
}

// cut makes a block of its own of what lies behind a block's first bytes.
func (a *Allocator) cut(id BlockID, size int64) BlockID {
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
func (a *Allocator) fit(q Request) BlockID {
	r, ar := q.Bytes, &a.arenas[q.arena]
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
	if split := a.maxSplit(); r < split && k.size >= split || r >= split && k.size >= r+a.MaxNonSplitRounding {
		return 0 // only the best fit is looked at
	}
	return k.block
}

// fitExpandable prefers, of blocks that would do, one whose free space is
// smaller when the unmapped range behind it is counted in; it stops at the
// first that is not.
func (a *Allocator) fitExpandable(ar *arena, k key) (key, bool) {
	if !a.Expandable {
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
func (a *Allocator) roomAt(id BlockID) int64 {
	b := &a.blocks[id]
	if b.next != 0 && a.blocks[b.next].state == unmapped {
		return b.size + a.blocks[b.next].size
	}
	return b.size
}

// fromDriver is alloc_block: a new segment, or newly mapped pages.
func (a *Allocator) fromDriver(q Request) BlockID {
	bytes := a.SegmentFor(q.Bytes)
	if a.Reserved+bytes > a.limit {
		return 0 // even where fewer pages would do
	}
	if a.Expandable {
		return a.expand(q)
	}
	address, ok := a.device.malloc(bytes, a.Reserved)
	if !ok {
		return 0
	}
	return a.addSegment(q.arena, address, bytes)
}

// addSegment adds a segment as one block that is in no tree.
func (a *Allocator) addSegment(arena uint32, address uint64, bytes int64) BlockID {
	a.reserve(bytes)
	a.Segments++
	return a.newBlock(block{address: address, size: bytes, age: a.nextAge(), arena: uint16(arena), state: unused})
}

// nextAge numbers a new segment.
func (a *Allocator) nextAge() uint32 {
	if !a.byAge {
		return 0
	}
	a.oldest++
	return a.oldest
}

func (a *Allocator) reserve(bytes int64) {
	a.Calls++
	a.Reserved += bytes
	a.PeakReserved = max(a.PeakReserved, a.Reserved)
}

// Free gives a block back and joins it with its free neighbours.
func (a *Allocator) Free(id BlockID) {
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
func (a *Allocator) swallow(id, next BlockID) {
	n := a.blocks[next]
	a.blocks[id].size += n.size
	a.blocks[id].next = n.next
	if n.next != 0 {
		a.blocks[n.next].prev = id
	}
	a.dropBlock(next)
}

// FreeLater notes that a block's free is requested while other streams use it.
func (a *Allocator) FreeLater(id BlockID, owner uint32) {
	a.blocks[id].state = pending
	a.pending[id] = owner
}

// Complete frees an owner's block that waited, unless memory pressure has done so
// already.
func (a *Allocator) Complete(id BlockID, owner uint32) {
	if by, waits := a.pending[id]; waits && by == owner {
		delete(a.pending, id)
		a.Free(id)
	}
}

// Short is how many bytes more the device would have needed for a request that was
// refused: a limit is compared with a segment, the device with pages.
func (a *Allocator) Short(q Request) int64 {
	return max(0, a.Reserved+a.SegmentFor(q.Bytes)-a.limit, a.Reserved+a.Needs(q.Bytes)-a.device.capacity)
}

// Pieces are the bytes of free blocks that are smaller than a request, in all. A block of its
// size that is freed later may keep the pages at both of its ends: they count, too, where
// pages are mapped and the request takes more than one.
func (a *Allocator) Pieces(request int64) (bytes int64) {
	if page := a.page(false); a.Expandable && request > page {
		bytes += 2 * page
	}
	for i := range a.blocks {
		if b := &a.blocks[i]; b.state == free && b.size < request {
			bytes += b.size
		}
	}
	return bytes
}

// Confine empties the cache where more is reserved than may be, and tells by how many
// bytes it still is.
func (a *Allocator) Confine() int64 {
	most := min(a.limit, a.device.capacity)
	if a.Reserved > most {
		a.EmptyCache()
	}
	return max(0, a.Reserved-most)
}
