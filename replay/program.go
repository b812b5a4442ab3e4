package replay

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/replay/allocator"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

type opKind uint8

const (
	opAlloc      opKind = iota
	opFree              // requested and completed at once
	opFreeAsked         // the block is pending until opFreeDone
	opFreeDone          //
	opEmptyCache        // torch.cuda.empty_cache()
	opFailed            // a request that could not be met when it was recorded
	opOrphan            // the owner of the private pool in slot gave it up
)

// op is one thing that a program asked of the allocator.
type op struct {
	bytes int64  // requested; opFailed: rounded
	slot  uint32 // where a replay keeps the block; slots are used again
	event uint32 // of the recording
	pair  uint16 // index into Program.pairs
	kind  opKind
}

// olderBlock is a block that was in use before the first event.
type olderBlock struct {
	slot    uint32
	bytes   int64 // requested
	pending bool
	pair    uint16
}

// Program is what a recorded process asked of the allocator, in the order in
// which it did, and the layout that it began with.
type Program struct {
	Timeline *timeline.Timeline
	Settings allocator.Settings // that it was recorded under
	Notes    []string           // what about the recording is assumed

	pairs []allocator.Pair
	ops   []op
	slots int

	layout  timeline.Layout // before the first event
	older   []olderBlock    // in the order of layout's blocks
	flushes []Flush
	streams map[allocator.Pair]uint16
	byAge   bool // of equal free blocks, that of the oldest segment is taken
	checked *Check
	changed bool               // by a Change: the first layout would have been another
	private []timeline.Segment // final segments of private pools, where events name none
}

// maxRequest is more than any program asks for at once.
const maxRequest = int64(1) << 50

// maxPairs bounds the pools and streams of a recording.
const maxPairs = 1 << 14

// NewProgram reads the requests out of a timeline.
func NewProgram(t *timeline.Timeline) (*Program, error) {
	p := &Program{Timeline: t, streams: map[allocator.Pair]uint16{}}
	p.Settings, p.Notes = allocator.Recorded(t.Snapshot)
	if err := p.usable(); err != nil {
		return nil, err
	}
	p.inferLargeSegment()
	p.layout = t.LayoutAt(timeline.NoEvent)
	if p.layout.Misfits > 0 {
		return nil, fmt.Errorf("%d blocks of the recording's first state overlap others or lie in no segment", p.layout.Misfits)
	}
	p.flushes = findFlushes(t)
	p.byAge = t.Snapshot.Host != nil // as of PyTorch 2.15; Verify finds out
	if err := p.compile(); err != nil {
		return nil, err
	}
	return p, nil
}

// usable tells why a recording can't be replayed at all.
func (p *Program) usable() error {
	t := p.Timeline
	e := &t.Device.Events
	if t.History == timeline.None {
		return fmt.Errorf("the recording has no history to replay: %s", t.Reason)
	}
	if t.Snapshot.Cut >= 0 {
		return fmt.Errorf("the file is cut off before the final state, from which a replay finds the first one")
	}
	segments := 0
	for i, a := range e.Action {
		if e.Size[i] < 0 || e.Size[i] > maxRequest {
			return fmt.Errorf("event %d is about %d bytes: no device has them", i, e.Size[i])
		}
		if a >= snapshot.SegmentAlloc && a <= snapshot.SegmentUnmap {
			segments++
		}
	}
	if segments == 0 && t.Start.Reserved == 0 {
		return fmt.Errorf("the trace has no segment events: they were left out when it was recorded")
	}
	if t.Start.Reserved > allocator.Unlimited/2 {
		return fmt.Errorf("%d bytes are reserved before the first event: no device has them", t.Start.Reserved)
	}
	return nil
}

// inferLargeSegment finds large_segment_size where the settings don't tell:
// what was asked of the driver for a request between 1 and 10 MiB.
func (p *Program) inferLargeSegment() {
	e := &p.Timeline.Device.Events
	if p.Settings.Expandable {
		return
	}
	var seen int64
	for i := 1; i < e.Len(); i++ {
		if e.Action[i] != snapshot.Alloc || e.Action[i-1] != snapshot.SegmentAlloc || e.Address[i] != e.Address[i-1] {
			continue
		}
		if !p.Settings.SharesSegment(e.Size[i]) {
			continue
		}
		if seen != 0 && seen != e.Size[i-1] {
			return
		}
		seen = e.Size[i-1]
	}
	p.Settings.SetLargeSegment(seen)
}

// compiler turns events into ops.
type compiler struct {
	*Program
	slot     []uint32 // by allocation
	spare    []uint32
	unseen   []timeline.UnseenFree // that are yet to come
	orphaned map[uint16]bool
}

func (p *Program) compile() error {
	t := p.Timeline
	e := &t.Device.Events
	c := compiler{Program: p, slot: make([]uint32, t.Len()), unseen: t.Unseen, orphaned: map[uint16]bool{}}
	p.findPrivate()
	c.begin()
	next := 0
	p.ops = pages.Make[op](e.Len())[:0]
	for i := range e.Len() {
		for next < len(p.flushes) && p.flushes[next].First == i {
			c.flush(&p.flushes[next])
			next++
		}
		c.event(i)
	}
	if len(p.pairs) > maxPairs {
		return fmt.Errorf("%d streams and pools: more than %d", len(p.pairs), maxPairs)
	}
	return nil
}

func (p *Program) pairOf(stream, pool uint32) uint16 {
	key := allocator.Pair{Stream: stream, Pool: uint16(min(pool, 1<<16-1))}
	if i, ok := p.streams[key]; ok {
		return i
	}
	i := uint16(min(len(p.pairs), 1<<15-1))
	p.pairs = append(p.pairs, key)
	p.streams[key] = i
	return i
}

// pairOfSegment is that of a segment of the first state.
func (p *Program) pairOfSegment(s *timeline.Segment) uint16 {
	return p.streams[allocator.Pair{Stream: s.Stream, Pool: uint16(s.Pool)}]
}

// findPrivate prepares for traces of before 2026, whose events name no pool:
// an address tells, as far as its segment is still there at the end.
func (p *Program) findPrivate() {
	d := p.Timeline.Device
	if d.Events.Pool != nil {
		return
	}
	for _, s := range d.Segments {
		if s.Pool != 0 {
			p.private = append(p.private, timeline.Segment{Address: s.Address, Bytes: s.TotalSize, Pool: s.Pool})
		}
	}
	slices.SortFunc(p.private, func(a, b timeline.Segment) int { return cmp.Compare(a.Address, b.Address) })
}

func (p *Program) poolOf(i int) uint32 {
	e := &p.Timeline.Device.Events
	if len(p.private) == 0 {
		return e.PoolOf(i)
	}
	at := sort.Search(len(p.private), func(k int) bool { return p.private[k].Address > e.Address[i] }) - 1
	if at >= 0 && e.Address[i]-p.private[at].Address < uint64(p.private[at].Bytes) {
		return p.private[at].Pool
	}
	return 0
}

func (c *compiler) newSlot() uint32 {
	if n := len(c.spare); n > 0 {
		s := c.spare[n-1]
		c.spare = c.spare[:n-1]
		return s
	}
	c.slots++
	return uint32(c.slots - 1)
}

// begin gives the blocks of the first state their slots.
func (c *compiler) begin() {
	for _, s := range c.layout.Segments {
		of := c.pairOf(s.Stream, s.Pool)
		for _, b := range s.Blocks {
			if b.Allocation == timeline.NoAllocation {
				continue
			}
			slot := c.newSlot()
			c.slot[b.Allocation] = slot
			c.older = append(c.older, olderBlock{slot: slot, bytes: c.Timeline.Requested(b.Allocation),
				pending: b.Pending, pair: of})
		}
	}
}

func (c *compiler) emit(kind opKind, id timeline.AllocationID, event int) {
	o := op{kind: kind, slot: c.slot[id], event: uint32(event)}
	if kind == opFreeDone {
		if n := len(c.ops) - 1; n >= 0 && c.ops[n].kind == opFreeAsked && c.ops[n].slot == o.slot {
			c.ops[n].kind = opFree
			c.spare = append(c.spare, o.slot)
			return
		}
	}
	if kind == opFree || kind == opFreeDone {
		c.spare = append(c.spare, o.slot)
	}
	c.ops = append(c.ops, o)
}

func (c *compiler) event(i int) {
	t := c.Timeline
	e := &t.Device.Events
	switch e.Action[i] {
	case snapshot.Alloc:
		for ; len(c.unseen) > 0 && c.unseen[0].Event == uint32(i); c.unseen = c.unseen[1:] {
			if id := c.unseen[0].ID; t.FreedAt(id) == i {
				c.emit(opFree, id, i)
			} else {
				c.emit(opFreeDone, id, i)
			}
		}
		id := t.Of[i]
		c.slot[id] = c.newSlot()
		c.ops = append(c.ops, op{kind: opAlloc, bytes: e.Size[i], slot: c.slot[id], event: uint32(i),
			pair: c.pairOf(e.StreamOf(i), c.poolOf(i))})
	case snapshot.FreeRequested, snapshot.FreeCompleted:
		id := t.Of[i]
		asked, done := t.FreeRequested[id] == uint32(i), t.Freed[id] == uint32(i)
		switch {
		case asked && done:
			c.emit(opFree, id, i)
		case asked:
			c.emit(opFreeAsked, id, i)
		case done:
			c.emit(opFreeDone, id, i)
		}
	case snapshot.OOM:
		c.ops = append(c.ops, op{kind: opFailed, bytes: e.Size[i], event: uint32(i), pair: c.pairOf(e.StreamOf(i), c.poolOf(i))})
	}
}

// flush turns what was given back to the driver into the call that did it.
// What memory pressure gave back a replay finds out by itself.
func (c *compiler) flush(f *Flush) {
	e := &c.Timeline.Device.Events
	for i := f.First; i <= f.Last; i++ {
		if pool := uint16(e.PoolOf(i)); pool != 0 && !c.orphaned[pool] {
			c.orphaned[pool] = true
			c.ops = append(c.ops, op{kind: opOrphan, slot: uint32(pool), event: uint32(i)})
		}
	}
	if f.Emptied {
		c.ops = append(c.ops, op{kind: opEmptyCache, event: uint32(f.First)})
	}
}
