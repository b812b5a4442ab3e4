package timeline

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/snapshot"
)

// provisional marks ids of older blocks until all of them are known.
const provisional = AllocationID(1 << 31)

// pairing finds which events belong to the same allocation.
type pairing struct {
	t     *Timeline
	live  *addresses // id plus one
	old   []older
	oldOf struct{ requested, freed []uint32 }
	oldIn []uint32       // events that concern one of old
	room  int            // ids that are kept free for old: as many as there should be
	next  AllocationID   // of the next allocation
	place []AllocationID // final ids of old, once all are known

	// What skip_actions left out of the trace.
	noRequests, noCompletions bool
	reused                    int
}

// pair gives every event its allocation, and every allocation its birth and death.
func (t *Timeline) pair() {
	e := &t.Device.Events
	n := t.counts[snapshot.Alloc]
	requests, completions := t.counts[snapshot.FreeRequested], t.counts[snapshot.FreeCompleted]
	used, pending := t.usedAtEnd()
	p := pairing{t: t, live: newAddresses(), noRequests: requests == 0,
		noCompletions: completions == 0 && (pending == 0 || pending < requests)}
	frees := completions
	if p.noCompletions {
		frees = requests
	}
	p.room = max(0, used+frees-n) // what is there in the end, and freed before, was made before
	t.Of = pages.Make[AllocationID](e.Len())
	t.Born, t.FreeRequested, t.Freed = pages.Make[uint32](p.room+n), pages.Make[uint32](p.room+n), pages.Make[uint32](p.room+n)
	t.Allocated = pages.Make[int64](p.room + n) // for later: a page that is read before it is written costs twice
	p.next = AllocationID(p.room)
	touch(t.Of, t.Allocated, t.Born, t.FreeRequested, t.Freed)
	for i := 0; i < len(e.Action); i++ {
		id := NoAllocation
		switch e.Action[i] {
		case snapshot.Alloc:
			id = p.alloc(uint32(i), e.Address[i])
		case snapshot.FreeRequested:
			if !p.noCompletions && completedNext(e, i) {
				id = p.freed(uint32(i), e.Address[i])
				t.Of[i] = id
				i++
				break
			}
			id = p.requested(uint32(i), e.Address[i])
		case snapshot.FreeCompleted:
			id = p.completed(uint32(i), e.Address[i])
		}
		t.Of[i] = id
	}
	if p.reused > 0 {
		t.damagef("%d allocations at an address that is still in use: their predecessors are taken as freed", p.reused)
	}
	sizes := p.matchFinal()
	p.renumber()
	for _, s := range sizes {
		t.Allocated[p.final(s.id)] = s.size
	}
}

// touch has memory put behind the columns on another core while they are filled.
func touch(of []AllocationID, allocated []int64, columns ...[]uint32) {
	const many = 1 << 15
	if len(of) < many {
		return
	}
	go func() {
		pages.Touch(of)
		for _, c := range columns {
			pages.Touch(c)
		}
		pages.Touch(allocated)
	}()
}

// usedAtEnd is how many final blocks are in use, and how many of them wait for
// other streams: when all frees are among these, none was completed, and
// nothing left out.
func (t *Timeline) usedAtEnd() (used, pending int) {
	for i := range t.Device.Segments {
		for _, b := range t.Device.Segments[i].Blocks {
			switch b.State {
			case snapshot.Inactive:
				continue
			case snapshot.ActivePendingFree:
				pending++
			}
			used++
		}
	}
	return used, pending
}

func (p *pairing) alloc(i uint32, address uint64) AllocationID {
	t := p.t
	id := p.next
	p.next++
	t.Born[id], t.FreeRequested[id], t.Freed[id] = i, Never, Never
	if v := p.live.set(address, uint32(id)+1); v != 0 {
		id := AllocationID(v - 1)
		p.end(id, i)
		t.Unseen = append(t.Unseen, UnseenFree{i, id})
		p.reused++
	}
	return id
}

// end marks an allocation's death at event i, whatever of it is known.
func (p *pairing) end(id AllocationID, i uint32) {
	requested, freed := p.t.FreeRequested, p.t.Freed
	if id&provisional != 0 {
		requested, freed = p.oldOf.requested, p.oldOf.freed
		id &^= provisional
	}
	if requested[id] == Never {
		requested[id] = i
	}
	freed[id] = i
}

// oldBlock is a new entry for a block that the trace only sees being freed.
func (p *pairing) oldBlock(i uint32, address uint64) AllocationID {
	e := &p.t.Device.Events
	p.old = append(p.old, older{address: address, requested: e.Size[i], stack: 0,
		stream: e.StreamOf(int(i)), pool: e.PoolOf(int(i))})
	p.oldOf.requested = append(p.oldOf.requested, Never)
	p.oldOf.freed = append(p.oldOf.freed, Never)
	return provisional | AllocationID(len(p.old)-1)
}

func (p *pairing) requested(i uint32, address uint64) AllocationID {
	var id AllocationID
	if v := p.live.get(address); v != 0 {
		id = AllocationID(v - 1)
	} else {
		id = p.oldBlock(i, address)
		p.live.set(address, uint32(id)+1)
	}
	if id&provisional != 0 {
		p.oldIn = append(p.oldIn, i)
	}
	if p.noCompletions {
		p.end(id, i)
		p.live.remove(address)
	} else if id&provisional != 0 {
		p.oldOf.requested[id&^provisional] = i
	} else {
		p.t.FreeRequested[id] = i
	}
	return id
}

// completedNext reports whether the request to free at event i is carried out by
// the next event, as it is where no other stream uses the block.
func completedNext(e *snapshot.Events, i int) bool {
	return i+1 < len(e.Action) && e.Action[i+1] == snapshot.FreeCompleted && e.Address[i+1] == e.Address[i]
}

// freed is requested and completed at once, at events i and i+1.
func (p *pairing) freed(i uint32, address uint64) AllocationID {
	v := p.live.remove(address)
	id := AllocationID(v - 1)
	if v == 0 {
		id = p.oldBlock(i, address)
	}
	if id&provisional != 0 {
		p.oldIn = append(p.oldIn, i, i+1)
		old := id &^ provisional
		p.oldOf.requested[old], p.oldOf.freed[old] = i, i+1
		return id
	}
	p.t.FreeRequested[id], p.t.Freed[id] = i, i+1
	return id
}

func (p *pairing) completed(i uint32, address uint64) AllocationID {
	v := p.live.remove(address)
	if v == 0 {
		id := p.oldBlock(i, address)
		p.oldIn = append(p.oldIn, i)
		if !p.noRequests { // the request came before the recording
			p.oldOf.requested[id&^provisional] = Before
		}
		p.end(id, i)
		return id
	}
	id := AllocationID(v - 1)
	if id&provisional != 0 {
		p.oldIn = append(p.oldIn, i)
	}
	p.end(id, i)
	return id
}

// knownSize is a block's true size, from the final state.
type knownSize struct {
	id   AllocationID
	size int64
}

// matchFinal compares what is alive after the last event with the final
// blocks, which also know their true sizes. Blocks that the trace never
// mentions are older than it.
func (p *pairing) matchFinal() []knownSize {
	t := p.t
	if t.unended() {
		return nil
	}
	var sizes []knownSize
	matched, differ := 0, 0
	for i := range t.Device.Segments {
		s := &t.Device.Segments[i]
		for j := range s.Blocks {
			b := &s.Blocks[j]
			if b.State == snapshot.Inactive {
				continue
			}
			var id AllocationID
			if v := p.live.get(b.Address); v != 0 {
				id = AllocationID(v - 1)
				matched++
				if b.Requested >= 0 && p.requestedBytes(id) != b.Requested {
					differ++
				}
			} else {
				requested := b.Requested
				if requested < 0 {
					requested = b.Size
				}
				p.old = append(p.old, older{address: b.Address, requested: requested, stack: b.Stack,
					stream: s.Stream, pool: s.Pool, sizeKnown: true})
				p.oldOf.requested = append(p.oldOf.requested, Never)
				p.oldOf.freed = append(p.oldOf.freed, Never)
				id = provisional | AllocationID(len(p.old)-1)
				if b.State == snapshot.ActivePendingFree {
					p.oldOf.requested[len(p.old)-1] = Before
				}
			}
			sizes = append(sizes, knownSize{id, b.Size})
		}
	}
	if lost := p.live.count - matched; lost > 0 {
		t.damagef("%d allocations are alive after the last event but not among the final blocks", lost)
	}
	if differ > 0 {
		t.damagef("%d final blocks have another requested size than the trace says", differ)
	}
	return sizes
}

func (p *pairing) requestedBytes(id AllocationID) int64 {
	if id&provisional != 0 {
		return p.old[id&^provisional].requested
	}
	return p.t.Device.Events.Size[p.t.Born[id]]
}

// renumber puts the older blocks first, by address and then by death, and
// moves all other ids where there aren't as many of them as there was room for.
func (p *pairing) renumber() {
	t := p.t
	n := len(p.old)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(p.old[a].address, p.old[b].address), cmp.Compare(p.oldOf.freed[a], p.oldOf.freed[b]),
			cmp.Compare(a, b))
	})
	more := n - p.room
	t.Born, t.FreeRequested, t.Freed = moved(t.Born, more), moved(t.FreeRequested, more), moved(t.Freed, more)
	t.Allocated = moved(t.Allocated, more)
	p.place = make([]AllocationID, n)
	t.older = make([]older, n)
	for rank, i := range order {
		t.older[rank] = p.old[i]
		t.Born[rank], t.FreeRequested[rank], t.Freed[rank] = Never, p.oldOf.requested[i], p.oldOf.freed[i]
		p.place[i] = AllocationID(rank)
	}
	if n != p.room {
		for i, id := range t.Of {
			if id&provisional == 0 {
				t.Of[i] = p.final(id)
			}
		}
	}
	for _, i := range p.oldIn {
		t.Of[i] = p.final(t.Of[i])
	}
	for i := range t.Unseen {
		t.Unseen[i].ID = p.final(t.Unseen[i].ID)
	}
}

// moved is a column with so many more places in front, or fewer.
func moved[T any](column []T, more int) []T {
	if more > 0 {
		return append(make([]T, more, more+len(column)), column...)
	}
	return column[-more:]
}

// final is the id of an allocation once all are known.
func (p *pairing) final(id AllocationID) AllocationID {
	if id&provisional != 0 {
		return p.place[id&^provisional]
	}
	return id + AllocationID(len(p.old)) - AllocationID(p.room)
}
