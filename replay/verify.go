package replay

import (
	"fmt"
	"math"

	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Faithful is the share of addresses and of segment calls that must come out
// as recorded before a replay under other settings can be trusted.
const Faithful = 0.99

// Check is how well a replay under the recorded settings behaves as recorded.
type Check struct {
	Addresses, AddressesRight int // of allocations
	Calls, CallsRight         int // for segments
	Failures, FailuresRight   int // requests that could not be met

	First string // the first mismatch in words, "" when there is none
	Event int    // its event; -1
	Cause string // what is likely behind the mismatches

	refused int64 // the least that could not be reserved, in bytes

}

// Rate is the share of addresses that came out as recorded, 1 when there are none.
func (c *Check) Rate() float64 { return share(c.AddressesRight, c.Addresses) }

// CallRate is the share of segment calls that came out as recorded.
func (c *Check) CallRate() float64 { return share(c.CallsRight, c.Calls) }

func share(part, whole int) float64 {
	if whole == 0 {
		return 1
	}
	return float64(part) / float64(whole)
}

// Refusal says why replays under other settings can't be trusted, "" when they
// can.
func (c *Check) Refusal() string {
	if c.Rate() >= Faithful && c.CallRate() >= Faithful {
		return ""
	}
	return fmt.Sprintf("replayed under the recorded settings, %.1f %% of %d addresses and %.1f %% of %d segment calls come "+
		"out as recorded, fewer than %.0f %%; first at %s; likely reason: %s",
		100*c.Rate(), c.Addresses, 100*c.CallRate(), c.Calls, 100*Faithful, c.First, c.Cause)
}

// verifier follows the recorded events and foretells each one before it takes
// it over, so that one surprise doesn't make others.
type verifier struct {
	*run
	Check
	index    map[uint64]blockID // starts of segments
	next     int                // event of the next request
	fresh    blockID            // a new segment's block, until its request comes
	searched int
	events   *snapshot.Events
	pages    map[uint64]blockID // what emptying the cache would unmap, by address; nil: to be found again
}

// Verify replays the recording under its own settings and compares every
// address and every segment call. Which of two equal free blocks is taken
// depends on the version of PyTorch; the recording tells.
func (p *Program) Verify() Check {
	if p.checked != nil {
		return *p.checked
	}
	check := p.verify()
	if check.AddressesRight < check.Addresses {
		p.byAge = !p.byAge
		if other := p.verify(); other.AddressesRight > check.AddressesRight {
			check = other
		} else {
			p.byAge = !p.byAge
		}
	}
	p.checked = &check
	return check
}

func (p *Program) verify() Check {
	s := Scenario{Settings: p.Settings}
	v := verifier{run: p.start(&s), events: &p.Timeline.Device.Events, index: map[uint64]blockID{}, next: -1}
	v.Event, v.refused = -1, math.MaxInt64
	for id := range v.a.blocks {
		if b := &v.a.blocks[id]; b.state != unused && b.prev == 0 && b.range_ == 0 {
			v.index[b.address] = blockID(id)
		}
	}
	ops, bursts := p.ops, p.bursts
	for i := range v.events.Len() {
		for len(ops) > 0 && int(ops[0].event) == i && ops[0].kind != opAlloc && ops[0].kind != opFailed {
			v.follow(&ops[0])
			ops = ops[1:]
		}
		if v.events.Action[i] != snapshot.SegmentUnmap {
			v.pages = nil
		}
		if len(bursts) > 0 && bursts[0].first == i {
			v.pressed(&bursts[0])
			bursts = bursts[1:]
		}
		switch v.events.Action[i] {
		case snapshot.SegmentAlloc:
			v.segmentAlloc(i)
		case snapshot.SegmentFree:
			v.segmentFree(i)
		case snapshot.SegmentMap:
			v.segmentMap(i)
		case snapshot.SegmentUnmap:
			v.segmentUnmap(i)
		}
		if len(ops) > 0 && int(ops[0].event) == i {
			if ops[0].kind == opAlloc {
				v.alloc(&ops[0])
			} else {
				v.oom(&ops[0])
			}
			ops = ops[1:]
		}
	}
	v.explain()
	return v.Check
}

// follow takes over what programs do to blocks.
func (v *verifier) follow(o *op) {
	switch o.kind {
	case opFree:
		if id := v.slots[o.slot]; id != 0 {
			v.slots[o.slot] = 0
			v.a.release(id)
		}
	case opFreeAsked:
		if id := v.slots[o.slot]; id != 0 {
			v.a.blocks[id].state = pending
			v.a.pending[id] = o.slot
		}
	case opFreeDone:
		v.complete(o.slot)
	}
}

func (v *verifier) differ(event int, format string, args ...any) {
	if v.Event < 0 {
		v.Event = event
		v.First = fmt.Sprintf("event %d, ", event) + fmt.Sprintf(format, args...)
	}
}

// call counts a segment call.
func (v *verifier) call(right bool, event int, format string, args ...any) {
	v.Calls++
	if right {
		v.CallsRight++
		return
	}
	v.differ(event, format, args...)
}

// request is the rounded size and the arena of the first request from an
// event on: segment calls serve it.
func (v *verifier) request(event int) (r int64, where uint32, ok bool) {
	if v.next < event {
		for v.next = event; v.next < v.events.Len(); v.next++ {
			if a := v.events.Action[v.next]; a == snapshot.Alloc || a == snapshot.OOM {
				break
			}
		}
	}
	if v.next == v.events.Len() {
		return 0, 0, false
	}
	r = v.a.set.round(v.events.Size[v.next])
	where = uint32(2 * v.p.streams[pair{v.events.StreamOf(v.next), uint16(v.p.poolOf(v.next))}])
	if r > smallSize {
		where++
	}
	return r, where, true
}

func (v *verifier) oom(o *op) {
	r, where, _ := v.request(int(o.event))
	found := v.a.fit(where, r)
	v.Failures++
	if found == 0 {
		v.FailuresRight++
	} else {
		v.differ(int(o.event), "a request of %d bytes fails, where the replay %s", r, v.expected(found, r))
	}
}

// alloc compares an address, and takes over the recorded one.
func (v *verifier) alloc(o *op) {
	address := v.events.Address[o.event]
	r, where, _ := v.request(int(o.event))
	id := v.fresh
	v.fresh = 0
	if id == 0 || v.a.blocks[id].arena != uint16(where) {
		if id != 0 {
			v.a.cache(id)
		}
		id = v.a.fit(where, r)
	}
	v.Addresses++
	if id != 0 && v.a.blocks[id].address == address {
		v.AddressesRight++
		v.a.take(id, r)
		v.slots[o.slot] = id
		return
	}
	if id == 0 {
		v.differ(int(o.event), "a block of %d bytes is at %#x, where the replay asks the driver", r, address)
	} else {
		v.differ(int(o.event), "a block of %d bytes is at %#x, where the replay %s", r, address, v.expected(id, r))
		if v.a.blocks[id].state != free {
			v.a.cache(id) // a fresh segment
		}
	}
	v.slots[o.slot] = v.takeAt(address, r)
}

// takeAt gives out the block at a recorded address, 0 when something else is
// there.
func (v *verifier) takeAt(address uint64, r int64) blockID {
	id := v.blockAt(address)
	if id == 0 || v.a.blocks[id].state != free {
		return 0
	}
	if front := int64(address - v.a.blocks[id].address); front > 0 {
		v.a.uncache(id)
		rest := v.a.cut(id, front)
		v.a.cache(id)
		v.a.cache(rest)
		id = rest
	}
	if v.a.blocks[id].size < r {
		return 0
	}
	v.a.take(id, r)
	return id
}

// maxSurprises bounds how often a recorded place is searched for.
const maxSurprises = 5000

// blockAt finds the block that an address lies in, 0 when there is none. It
// looks at all of them: it is for surprises.
func (v *verifier) blockAt(address uint64) blockID {
	if v.searched++; v.searched > maxSurprises {
		return 0
	}
	for id := range v.a.blocks {
		if b := &v.a.blocks[id]; b.state != unused && b.state != unmapped && address-b.address < uint64(b.size) {
			return blockID(id)
		}
	}
	return 0
}

// explain names what is likely behind the mismatches.
func (v *verifier) explain() {
	if v.First == "" {
		return
	}
	t := v.p.Timeline
	switch {
	case len(t.Damage) > 0:
		v.Cause = "the recording contradicts itself: " + t.Damage[0]
	case len(t.Snapshot.Settings) == 0:
		v.Cause = "the file doesn't hold the allocator's settings, and they were not the defaults"
	case v.privatePools():
		v.Cause = "blocks of private pools (CUDA graphs) whose use the trace doesn't tell"
	case t.History == timeline.Overflowed || t.History == timeline.Late:
		v.Cause = "the state before the first event could not be found out: " + t.Reason
	default:
		v.Cause = "settings that were changed while it ran, an allocator of another version, or events left out of the trace"
	}
}

func (v *verifier) privatePools() bool {
	for _, p := range v.p.pairs {
		if p.pool != 0 {
			return true
		}
	}
	return false
}
