// Package replay runs PyTorch's caching allocator again over the requests of a
// recording: under the settings that it was made with, to prove that it
// behaves as recorded, and under others, to tell what they would have done.
//
//	p, err := replay.NewProgram(t)
//	if err != nil {
//		return err // the recording holds too little
//	}
//	check := p.Verify()
//	fmt.Println(check.Rate()) // of addresses that came out as recorded
//	conf, _, _ := replay.ParseConf("expandable_segments:True")
//	r := p.Run(replay.Scenario{Settings: conf, Usable: p.Limits().Usable})
//	fmt.Println(r.PeakReserved, r.OOM)
//
// The algorithm is that of c10/cuda/CUDACachingAllocator.cpp; doc/allocator.md
// describes it. A replay takes the requests as they are: a program that looks
// at the memory, or whose other streams are slower, may behave differently.
package replay

import (
	"github.com/vramscope/vramscope/timeline"
)

// Scenario is one way to run a program.
type Scenario struct {
	Name     string
	Settings Settings
	GPU      int64 // bytes of the device; 0: not known
	Usable   int64 // bytes of it that PyTorch can have; 0: no limit
	Allowed  int64 // bytes that a memory fraction allows; 0: no limit
	Packed   bool  // blocks of the first state are laid out anew, as from an empty device

	recorded bool // requests that failed when recorded fail again
}

// most is what PyTorch could have, in bytes; 0: not known.
func (s *Scenario) most() int64 {
	if s.Allowed > 0 && (s.Usable <= 0 || s.Allowed < s.Usable) {
		return s.Allowed
	}
	return max(0, s.Usable)
}

// Result is what came of a scenario.
type Result struct {
	PeakAllocated, PeakReserved   int64
	FinalAllocated, FinalReserved int64
	Waste                         int64 // largest reserved − allocated
	Segments                      int   // cudaMallocs in use at the end, as PyTorch's own counter has them
	Mapped                        int   // stretches of memory in expandable segments at the end, each a segment in a snapshot
	Retries                       int   // requests that first had to free the cache
	DeviceCalls                   int   // cudaMalloc, cudaFree, maps and unmaps
	Allocations                   int   // requests met, those of blocks older than the recording included

	OOM      bool // some request could not be met
	OOMEvent int  // the first such event; -1
	Short    int64
	// Survived: a request that failed in the recording was met. What the
	// program would have done next isn't recorded: the replay ends there.
	Survived bool
	Until    int // the last event that was replayed
}

// run is a replay under way.
type run struct {
	p     *Program
	a     *allocator
	slots []blockID
	Result
	allocated int64
}

// Run replays the program. Its memory is proportional to the blocks in use at
// a time.
func (p *Program) Run(s Scenario) Result {
	r := p.start(&s)
	if !r.OOM {
		r.play(&s, p.ops)
	}
	return r.finish()
}

func (p *Program) start(s *Scenario) *run {
	usable, allowed := s.Usable, s.Allowed
	if usable <= 0 {
		usable = unlimited
	}
	if allowed <= 0 {
		allowed = unlimited
	}
	d := newDevice(usable, s.GPU)
	r := &run{p: p, a: newAllocator(s.Settings, p.pairs, d, allowed, p.byAge), slots: make([]blockID, p.slots)}
	r.OOMEvent = -1
	r.Until = len(p.Timeline.Device.Events.Action) - 1
	if p.laysAnew(s) {
		r.pack()
	} else {
		r.layOut(d)
		r.confine(min(usable, allowed))
	}
	r.peak()
	return r
}

// confine fails where the recording's first state needs more than there is, even
// without what lay in its cache, which pressure would have freed.
func (r *run) confine(limit int64) {
	if r.a.reserved <= limit {
		return
	}
	if r.a.emptyCache(); r.a.reserved > limit {
		r.OOM, r.OOMEvent, r.Until = true, 0, 0
		r.Short = r.a.reserved - limit
	}
}

// laysAnew tells whether a scenario can't begin with the first layout as it was.
func (p *Program) laysAnew(s *Scenario) bool {
	return s.Packed || p.changed || s.Settings.shapes() != p.Settings.shapes()
}

// play carries out the ops; it ends where the program would have gone another
// way than it was recorded.
func (r *run) play(s *Scenario, ops []op) {
	a := r.a
	for i := range ops {
		o := &ops[i]
		switch o.kind {
		case opAlloc:
			if r.slots[o.slot] != 0 {
				continue // two changes would both make it again
			}
			id := a.malloc(a.set.round(o.bytes), uint32(o.pair))
			if id == 0 {
				r.fail(o)
				return
			}
			r.slots[o.slot] = id
			size := a.blocks[id].size
			r.allocated += size
			r.Allocations++
			r.peak()
		case opFree:
			if id := r.slots[o.slot]; id != 0 {
				size := a.blocks[id].size
				r.allocated -= size
				r.slots[o.slot] = 0
				a.release(id)
			}
		case opFreeAsked:
			if id := r.slots[o.slot]; id != 0 {
				r.allocated -= a.blocks[id].size
				a.blocks[id].state = pending
				a.pending[id] = o.slot
			}
		case opFreeDone:
			r.complete(o.slot)
		case opEmptyCache:
			a.emptyCache()
		case opOrphan:
			r.orphan(uint16(o.slot))
		case opFailed:
			id := blockID(0)
			if !s.recorded || s.Usable > 0 || s.Allowed > 0 {
				id = a.malloc(a.set.round(o.bytes), uint32(o.pair))
			}
			if id != 0 {
				r.Survived = true
				size := a.blocks[id].size
				r.allocated += size
				r.peak()
				r.Until = int(o.event)
				return
			}
			r.note(o)
		}
	}
}

func (r *run) peak() {
	if r.allocated > r.PeakAllocated {
		r.PeakAllocated = r.allocated
	}
	if waste := r.a.reserved - r.allocated; waste > r.Waste {
		r.Waste = waste
	}
}

// complete ends the life of a block whose free was requested before, unless
// memory pressure has done so already.
func (r *run) complete(slot uint32) {
	id := r.slots[slot]
	r.slots[slot] = 0
	if owner, waits := r.a.pending[id]; waits && owner == slot {
		delete(r.a.pending, id)
		r.a.release(id)
	}
}

func (r *run) orphan(pool uint16) {
	for i := range r.a.arenas {
		if r.a.arenas[i].pool == pool {
			r.a.arenas[i].orphaned = true
		}
	}
}

// note remembers the first request that could not be met.
func (r *run) note(o *op) {
	if r.OOM {
		return
	}
	r.OOM, r.OOMEvent = true, int(o.event)
	r.Short = r.shortage(r.a.set.round(o.bytes))
}

func (r *run) fail(o *op) {
	r.note(o)
	r.Until = int(o.event)
}

// shortage is how many bytes more the device would have needed for a request
// that was refused.
func (r *run) shortage(bytes int64) int64 {
	short := r.a.reserved + r.a.set.segmentFor(bytes) - r.a.limit // a limit is compared with a segment, the device with pages
	if d, ok := r.a.driver.(*device); ok {
		short = max(short, r.a.reserved+r.a.set.needs(bytes)-d.capacity)
	}
	return max(0, short)
}

func (r *run) finish() Result {
	r.PeakReserved = r.a.peakReserved
	r.FinalAllocated, r.FinalReserved = r.allocated, r.a.reserved
	r.Segments, r.Mapped, r.Retries, r.DeviceCalls = r.a.segments, r.a.mapped(), r.a.retries, r.a.calls
	r.Allocations += len(r.p.older)
	return r.Result
}

// layOut takes over the recording's first state as it was.
func (r *run) layOut(d *device) {
	next := 0
	for _, s := range r.p.layout.Segments {
		if !s.Expandable {
			d.occupy(s.Address, s.Bytes)
		}
	}
	ranges := map[uint32]blockID{}
	for _, s := range r.p.layout.Segments {
		where := uint32(2 * r.p.streams[pair{s.Stream, uint16(s.Pool)}])
		if !s.Small {
			where++
		}
		last := blockID(0)
		index, age := uint32(0), uint32(0)
		if s.Expandable {
			index, last = r.a.resume(ranges, where, s.Address)
		} else {
			r.a.segments++
		}
		if age = r.a.blocks[last].age; last == 0 {
			age = r.a.nextAge()
		}
		r.a.reserved += s.Bytes
		for _, b := range s.Blocks {
			id := r.a.newBlock(block{address: b.Address, size: b.Bytes, prev: last, range_: index, age: age, arena: uint16(where),
				state: used})
			if last != 0 {
				r.a.blocks[last].next = id
			}
			last = id
			if b.Allocation == timeline.NoAllocation {
				r.a.cache(id)
				continue
			}
			r.give(&r.p.older[next], id)
			next++
		}
		if s.Expandable {
			ranges[where] = last
		}
	}
	for _, last := range ranges {
		r.a.endRange(last, d)
	}
	r.a.peakReserved = r.a.reserved
}

// give hands a block of the first state to its owner.
func (r *run) give(o *olderBlock, id blockID) {
	r.slots[o.slot] = id
	if o.pending {
		r.a.blocks[id].state = pending
		r.a.pending[id] = o.slot
		return
	}
	r.allocated += r.a.blocks[id].size
}

// pack asks for the blocks of the first state anew, in the order of their
// addresses: how they would have come to lie isn't recorded.
func (r *run) pack() {
	for i := range r.p.older {
		o := &r.p.older[i]
		if id := r.a.malloc(r.a.set.round(o.bytes), uint32(o.pair)); id != 0 {
			r.give(o, id)
		}
	}
	r.a.retries = 0
	r.a.calls = 0
}
