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
//	conf, _, _ := allocator.ParseConf("expandable_segments:True")
//	r := p.Run(replay.Scenario{Settings: conf, Usable: p.Limits().Usable})
//	fmt.Println(r.PeakReserved, r.OOM)
//
// A replay takes the requests as they are: a program that looks
// at the memory, or whose other streams are slower, may behave differently.
package replay

import "github.com/vramscope/vramscope/replay/allocator"

// Scenario is one way to run a program.
type Scenario struct {
	Name     string
	Settings allocator.Settings
	GPU      int64 // bytes of the device; 0: not known
	Usable   int64 // bytes of it that PyTorch can have; 0: no limit
	Allowed  int64 // bytes that a memory fraction allows; 0: no limit
	Packed   bool  // blocks of the first state lie one after the other, as from an empty device

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
	Segments                      int // cudaMallocs in use at the end, as PyTorch's own counter has them
	Mapped                        int // stretches of memory in expandable segments at the end, each a segment in a snapshot
	Retries                       int // requests that first had to free the cache
	DeviceCalls                   int // cudaMalloc, cudaFree, maps and unmaps
	Allocations                   int // requests met, those of blocks older than the recording included

	OOM      bool // some request could not be met
	OOMEvent int  // the first such event; -1
	Short    int64
	// Survived: a request that failed in the recording was met. What the
	// program would have done next isn't recorded: the replay ends there.
	Survived bool
	// Pieces are bytes that no request as large as the one survived can have any more:
	// they stay free beside blocks in use when the cache is given back.
	Pieces int64
	Until  int // the last event that was replayed
}

// run is a replay under way.
type run struct {
	p     *Program
	a     *allocator.Allocator
	slots []allocator.BlockID
	Result
	allocated int64
	survived  int64 // rounded bytes of the request that was met though it had failed
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
	gpu := allocator.GPU{Total: s.GPU, Usable: s.Usable, Allowed: s.Allowed}
	r := &run{p: p, a: allocator.New(s.Settings, p.pairs, gpu, p.byAge), slots: make([]allocator.BlockID, p.slots)}
	r.OOMEvent = -1
	r.Until = p.Timeline.Device.Events.Len() - 1
	if p.repacks(s) {
		r.pack()
	} else {
		r.layOut()
		if short := r.a.Confine(); short > 0 { // even without what lay in the first state's cache
			r.OOM, r.OOMEvent, r.Until, r.Short = true, 0, 0, short
		}
	}
	r.PeakAllocated = r.allocated
	return r
}

// repacks reports whether a scenario can't begin with the first layout as it was recorded.
func (p *Program) repacks(s *Scenario) bool {
	return s.Packed || p.changed || !s.Settings.CutAlike(p.Settings)
}

// layOut takes over the recording's first state as it was.
func (r *run) layOut() {
	next := 0
	r.a.LayOut(r.p.layout.Segments, r.p.pairOfSegment, func(id allocator.BlockID) {
		r.give(&r.p.older[next], id)
		next++
	})
}

// pack asks for the blocks of the first state anew, in the order of their
// addresses: how they would have come to lie isn't recorded.
func (r *run) pack() {
	for i := range r.p.older {
		o := &r.p.older[i]
		if id := r.a.Malloc(r.a.Request(o.bytes, o.pair)); id != 0 {
			r.give(o, id)
		}
	}
	r.a.Retries, r.a.Calls = 0, 0
}

// give hands a block of the first state to its owner.
func (r *run) give(o *olderBlock, id allocator.BlockID) {
	r.slots[o.slot] = id
	if o.pending {
		r.a.FreeLater(id, o.slot)
		return
	}
	r.allocated += r.a.Size(id)
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
			id := a.Malloc(a.Request(o.bytes, o.pair))
			if id == 0 {
				r.note(o)
				r.Until = int(o.event)
				return
			}
			r.slots[o.slot] = id
			r.Allocations++
			r.allocated += a.Size(id)
			r.PeakAllocated = max(r.PeakAllocated, r.allocated)
		case opEmptyCache:
			a.EmptyCache()
		case opOrphan:
			a.Orphan(uint16(o.slot))
		case opFailed:
			id := allocator.BlockID(0)
			if !s.recorded || s.Usable > 0 || s.Allowed > 0 {
				id = a.Malloc(a.Request(o.bytes, o.pair))
			}
			if id != 0 {
				r.allocated += a.Size(id)
				r.PeakAllocated = max(r.PeakAllocated, r.allocated)
				r.Survived, r.Until = true, int(o.event)
				r.survived = r.a.Request(o.bytes, o.pair).Bytes
				return
			}
			r.note(o)
		default:
			r.free(o)
		}
	}
}

// free carries out what a program does to blocks that it has.
func (r *run) free(o *op) {
	id := r.slots[o.slot]
	if o.kind != opFreeAsked {
		r.slots[o.slot] = 0
	}
	switch {
	case id == 0:
	case o.kind == opFree:
		r.allocated -= r.a.Size(id)
		r.a.Free(id)
	case o.kind == opFreeAsked:
		r.allocated -= r.a.Size(id)
		r.a.FreeLater(id, o.slot)
	default:
		r.a.Complete(id, o.slot)
	}
}

// note remembers the first request that could not be met.
func (r *run) note(o *op) {
	if !r.OOM {
		r.OOM, r.OOMEvent, r.Short = true, int(o.event), r.a.Short(r.a.Request(o.bytes, o.pair))
	}
}

func (r *run) finish() Result {
	r.PeakReserved = r.a.PeakReserved
	r.FinalAllocated, r.FinalReserved = r.allocated, r.a.Reserved
	r.Segments, r.Mapped, r.Retries, r.DeviceCalls = r.a.Segments, r.a.Mapped(), r.a.Retries, r.a.Calls
	r.Allocations += len(r.p.older)
	if r.Survived {
		r.a.EmptyCache()
		r.Pieces = r.a.Pieces(r.survived)
	}
	return r.Result
}
