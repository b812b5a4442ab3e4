package replay

import (
	"fmt"
	"math"
	"slices"

	"github.com/vramscope/vramscope/replay/allocator"
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
// it over.
type verifier struct {
	*run
	Check
	f      *allocator.Follower
	next   int // event of the next request
	events *snapshot.Events
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
	r := p.start(&Scenario{Settings: p.Settings})
	v := verifier{run: r, f: r.a.Follow(), events: &p.Timeline.Device.Events, next: -1}
	v.Event, v.refused = -1, math.MaxInt64
	ops, flushes := p.ops, p.flushes
	for i := range v.events.Len() {
		for ; len(ops) > 0 && int(ops[0].event) == i && ops[0].kind != opAlloc && ops[0].kind != opFailed; ops = ops[1:] {
			if o := &ops[0]; o.kind != opEmptyCache && o.kind != opOrphan { // what those do the events say
				v.free(o)
			}
		}
		if len(flushes) > 0 && flushes[0].First == i {
			v.pressed(&flushes[0])
			flushes = flushes[1:]
		}
		v.segmentCall(i)
		if len(ops) > 0 && int(ops[0].event) == i {
			v.allocation(&ops[0])
			ops = ops[1:]
		}
	}
	v.explain()
	return v.Check
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

// request is the first one from an event on, if any: segment calls serve it.
func (v *verifier) request(event int) (q allocator.Request, ok bool) {
	if v.next < event {
		for v.next = event; v.next < v.events.Len(); v.next++ {
			if a := v.events.Action[v.next]; a == snapshot.Alloc || a == snapshot.OOM {
				break
			}
		}
	}
	if v.next == v.events.Len() {
		return q, false
	}
	key := allocator.Pair{Stream: v.events.StreamOf(v.next), Pool: uint16(v.p.poolOf(v.next))}
	return v.a.Request(v.events.Size[v.next], v.p.streams[key]), true
}

// allocation compares an address, and takes over the recorded one, or that there is none.
func (v *verifier) allocation(o *op) {
	event := int(o.event)
	q, _ := v.request(event)
	if o.kind == opFailed {
		v.Failures++
		if found := v.f.Fit(q); found == 0 {
			v.FailuresRight++
		} else {
			v.differ(event, "a request of %d bytes fails, where the replay %s", q.Bytes, v.expected(found, q))
		}
		return
	}
	v.Addresses++
	address := v.events.Address[event]
	next := v.f.Next(q)
	switch {
	case next == 0:
		v.differ(event, "a block of %d bytes is at %#x, where the replay asks the driver", q.Bytes, address)
	case v.a.Address(next) == address:
		v.AddressesRight++
	default:
		v.differ(event, "a block of %d bytes is at %#x, where the replay %s", q.Bytes, address, v.expected(next, q))
	}
	v.slots[o.slot] = v.f.Take(q, next, address)
}

func (v *verifier) expected(found allocator.BlockID, q allocator.Request) string {
	if found == 0 {
		return fmt.Sprintf("asks the driver for %d bytes", v.a.SegmentFor(q.Bytes))
	}
	return fmt.Sprintf("uses the free block at %#x of %d bytes", v.a.Address(found), v.a.Size(found))
}

// segmentCall compares what event i says about a segment, if it does, and takes it over.
func (v *verifier) segmentCall(i int) {
	address, bytes := v.events.Address[i], v.events.Size[i]
	switch v.events.Action[i] {
	case snapshot.SegmentAlloc:
		if q, ok := v.request(i); ok { // else the recording ends before the request
			found := v.f.Fit(q)
			v.call(found == 0 && bytes == v.a.SegmentFor(q.Bytes), i,
				"a segment of %d bytes for a block of %d, where the replay %s", bytes, q.Bytes, v.expected(found, q))
			v.f.AddSegment(q, address, bytes)
		}
	case snapshot.SegmentFree:
		v.call(v.f.FreeSegment(address, bytes), i,
			"the segment at %#x of %d bytes is freed, in which the replay has blocks in use",
			address, bytes)
	case snapshot.SegmentMap:
		if q, ok := v.request(i); ok {
			v.mapping(i, q)
			v.f.Map(q, address, bytes)
		}
	case snapshot.SegmentUnmap:
		more := i > 0 && v.events.Action[i-1] == snapshot.SegmentUnmap
		if had, ok := v.f.Unmap(address, bytes, more); !ok {
			v.call(false, i, "%d bytes are unmapped at %#x, which the replay doesn't have free there", bytes, address)
		} else {
			v.call(had == bytes, i, "%d bytes are unmapped at %#x, where the replay unmaps %d", bytes, address, had)
		}
	}
}

// mapping compares what event i maps for a request.
func (v *verifier) mapping(i int, q allocator.Request) {
	if found := v.f.Fit(q); found != 0 {
		v.call(false, i, "pages are mapped for a block of %d bytes, where the replay %s", q.Bytes, v.expected(found, q))
		return
	}
	address, bytes := v.events.Address[i], v.events.Size[i]
	at, size := v.f.NextMap(q, address)
	v.call(at == address && size == bytes, i, "%d bytes are mapped at %#x for a block of %d, where the replay maps %d at %#x",
		bytes, address, q.Bytes, size, at)
}

// pressed notes what the driver, or a memory fraction, refused before cached
// memory was given back.
func (v *verifier) pressed(f *Flush) {
	q, ok := v.request(f.First)
	if f.Emptied || !ok || v.f.Fit(q) != 0 {
		return
	}
	bytes := v.a.SegmentFor(q.Bytes)
	if v.a.Expandable {
		_, bytes = v.f.NextMap(q, 0)
	}
	v.refused = min(v.refused, f.Reserved+bytes)
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
	case slices.ContainsFunc(v.p.pairs, func(p allocator.Pair) bool { return p.Pool != 0 }):
		v.Cause = "blocks of private pools (CUDA graphs) whose use the trace doesn't tell"
	case t.History == timeline.Overflowed || t.History == timeline.Late:
		v.Cause = "the state before the first event could not be found out: " + t.Reason
	default:
		v.Cause = "settings that were changed while it ran, an allocator of another version, or events left out of the trace"
	}
}
