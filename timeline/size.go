package timeline

import (
	"math"
	"sort"

	"github.com/vramscope/vramscope/snapshot"
)

// size finds every block's true size and walks the four curves.
//
// Most blocks are as large as their rounded request. In the large pool a
// remainder of up to 1 MiB stays with the block, so there the layout of the
// segments is followed: the free piece that a block is cut from tells.
// One loop over all events, whose curves stay in registers.
func (t *Timeline) size() {
	l := newLayout(t)
	if !t.unended() {
		l.begin(t.spansAt(NoEvent))
	}
	for id := range t.older {
		if t.Allocated[id] == 0 { // freed within the trace, beyond what begin could see
			t.Allocated[id] = t.rounding.round(t.older[id].requested)
		}
	}
	t.Start = t.startLevels()
	w := walk{t: t, now: t.Start}
	t.AtPeak = t.Start
	t.Peaks = Peaks{Peak{t.Start.Requested, NoEvent}, Peak{t.Start.Allocated, NoEvent}, Peak{t.Start.Active, NoEvent},
		Peak{t.Start.Reserved, NoEvent}}
	e := &t.Device.Events
	c := newThinning(len(e.Action))
	for i := 0; i < len(e.Action); i++ {
		action := e.Action[i]
		switch action {
		case snapshot.Alloc:
			id := t.Of[i]
			r := t.rounding.round(e.Size[i])
			if r > smallSize {
				r = l.alloc(e.Address[i], r, t.Allocated[id])
			}
			if t.Allocated[id] == 0 {
				t.Allocated[id] = r
			}
			w.alloc(i, id)
			t.Peaks.Requested.rise(w.now.Requested, i)
			t.Peaks.Active.rise(w.now.Active, i)
			if t.Peaks.Allocated.rise(w.now.Allocated, i) {
				t.AtPeak = w.now
			}
		case snapshot.FreeRequested, snapshot.FreeCompleted:
			id := t.Of[i]
			// Mostly the next event completes it: no peak lies between them.
			if t.FreeRequested[id] == uint32(i) && t.Freed[id] == uint32(i+1) && e.Action[i+1] == snapshot.FreeCompleted &&
				i < c.next {
				i++
				w.gone(id)
			} else {
				w.end(id, i)
			}
			if t.Freed[id] == uint32(i) && t.Allocated[id] > smallSize {
				l.free(e.Address[i])
			}
		case snapshot.SegmentAlloc, snapshot.SegmentMap, snapshot.SegmentFree, snapshot.SegmentUnmap:
			switch action {
			case snapshot.SegmentAlloc:
				l.addSegment(e.Address[i], e.Size[i])
			case snapshot.SegmentFree:
				l.dropSegment(e.Address[i])
			}
			w.step(i, action)
			t.Peaks.Reserved.rise(w.now.Reserved, i)
		case snapshot.OOM:
			t.failed(i, w.now)
		}
		if i >= c.next || w.now.Allocated > c.High.Allocated || w.now.Reserved > c.Wide.Reserved {
			c.take(Instant{i, w.now})
		}
	}
	c.flush()
	t.Stretches = c.done
	t.End = w.now
	t.checkEnd()
}

// startLevels are the four quantities before the first event.
func (t *Timeline) startLevels() Levels {
	var l Levels
	for id, o := range t.older {
		l.Requested = add(l.Requested, o.requested)
		l.Active = add(l.Active, t.Allocated[id])
		if t.FreeRequested[id] != Before {
			l.Allocated = add(l.Allocated, t.Allocated[id])
		}
	}
	if t.unended() {
		return l // what was reserved before is not known
	}
	for i := range t.Device.Segments {
		l.Reserved = add(l.Reserved, t.Device.Segments[i].TotalSize)
	}
	e := &t.Device.Events
	for _, i := range t.segments {
		l.Reserved = add(l.Reserved, -reservedBy(e.Action[i], e.Size[i]))
	}
	if least := t.leastReserved(l.Reserved); least < 0 {
		t.damagef("the segment events would leave %d bytes less than nothing reserved", -least)
		l.Reserved = add(l.Reserved, -least)
	}
	return l
}

// leastReserved is the smallest that is reserved at any time when the first
// event finds that much.
func (t *Timeline) leastReserved(now int64) int64 {
	least := now
	e := &t.Device.Events
	for _, i := range t.segments {
		now = add(now, reservedBy(e.Action[i], e.Size[i]))
		least = min(least, now)
	}
	return least
}

// reservedBy is how much an event adds to what is reserved, in bytes.
func reservedBy(a snapshot.Action, size int64) int64 {
	switch a {
	case snapshot.SegmentAlloc, snapshot.SegmentMap:
		return size
	case snapshot.SegmentFree, snapshot.SegmentUnmap:
		return -size
	}
	return 0
}

// add stays within 63 bits, whatever a hostile file says.
func add(a, b int64) int64 {
	c := a + b
	if (a^c)&(b^c) < 0 { // the sum's sign is neither's
		return math.MaxInt64 ^ a>>63
	}
	return c
}

// walk follows the four curves from event to event.
type walk struct {
	t      *Timeline
	now    Levels
	unseen int // frees already counted
}

// step takes event i into account.
func (w *walk) step(i int, action snapshot.Action) {
	t := w.t
	switch action {
	case snapshot.Alloc:
		w.alloc(i, t.Of[i])
	case snapshot.FreeRequested, snapshot.FreeCompleted:
		w.end(t.Of[i], i)
	case snapshot.SegmentAlloc, snapshot.SegmentMap, snapshot.SegmentFree, snapshot.SegmentUnmap:
		w.now.Reserved = max(add(w.now.Reserved, reservedBy(action, t.Device.Events.Size[i])), 0)
	}
}

// alloc adds what event i makes.
func (w *walk) alloc(i int, id AllocationID) {
	t := w.t
	for w.unseen < len(t.Unseen) && t.Unseen[w.unseen].Event == uint32(i) {
		w.end(t.Unseen[w.unseen].ID, i)
		w.unseen++
	}
	size := t.Allocated[id]
	w.now.Requested = add(w.now.Requested, t.Device.Events.Size[i])
	w.now.Allocated = add(w.now.Allocated, size)
	w.now.Active = add(w.now.Active, size)
}

// end takes an allocation out of those curves that event i takes it out of.
func (w *walk) end(id AllocationID, i int) {
	t := w.t
	w.now.Allocated = t.lessAllocated(w.now.Allocated, id, i)
	if t.Freed[id] == uint32(i) {
		w.now.Active = max(w.now.Active-t.Allocated[id], 0)
		w.now.Requested = max(w.now.Requested-t.Requested(id), 0)
	}
}

// gone takes an allocation out of all curves.
func (w *walk) gone(id AllocationID) {
	size := w.t.Allocated[id]
	w.now.Allocated = max(w.now.Allocated-size, 0)
	w.now.Active = max(w.now.Active-size, 0)
	w.now.Requested = max(w.now.Requested-w.t.Requested(id), 0)
}

// rise reports whether the value is the largest so far.
func (p *Peak) rise(bytes int64, event int) bool {
	if bytes <= p.Bytes {
		return false
	}
	p.Bytes, p.Event = bytes, event
	return true
}

// Walk calls f with the curves after every event, in order.
func (t *Timeline) Walk(f func(event int, now Levels)) {
	w := walk{t: t, now: t.Start}
	for i, action := range t.Device.Events.Action {
		w.step(i, action)
		f(i, w.now)
	}
}

// WalkAllocated is Walk with the allocated bytes alone, in half the time.
func (t *Timeline) WalkAllocated(f func(event int, bytes int64)) {
	t.walkAllocated(NoEvent, t.Device.Events.Len(), t.Start.Allocated, f)
}

// WalkStretch is WalkAllocated within one of the stretches.
func (t *Timeline) WalkStretch(k int, f func(event int, bytes int64)) {
	s := &t.Stretches[k]
	f(s.First.Event, s.First.Allocated)
	t.walkAllocated(s.First.Event, s.End, s.First.Allocated, f)
}

// walkAllocated goes on from what is allocated after an event, up to another.
func (t *Timeline) walkAllocated(after, end int, now int64, f func(event int, bytes int64)) {
	unseen := t.Unseen[sort.Search(len(t.Unseen), func(i int) bool { return int(t.Unseen[i].Event) > after }):]
	for i := after + 1; i < end; i++ {
		switch t.Device.Events.Action[i] {
		case snapshot.Alloc:
			for len(unseen) > 0 && unseen[0].Event == uint32(i) {
				now = t.lessAllocated(now, unseen[0].ID, i)
				unseen = unseen[1:]
			}
			now = add(now, t.Allocated[t.Of[i]])
		case snapshot.FreeRequested, snapshot.FreeCompleted:
			now = t.lessAllocated(now, t.Of[i], i)
		}
		f(i, now)
	}
}

// lessAllocated is what is allocated after event i, which may end an allocation.
func (t *Timeline) lessAllocated(now int64, id AllocationID, i int) int64 {
	if t.FreeRequested[id] == uint32(i) {
		now = max(now-t.Allocated[id], 0) // less than 0 only where add had to stop
	}
	return now
}

// checkEnd compares the curves' ends with the final state.
func (t *Timeline) checkEnd() {
	if t.unended() || t.Device.Events.Len() == 0 {
		return
	}
	var end Levels
	loose := 0
	var first *snapshot.Segment
	var filled int64 // of the first
	for i := range t.Device.Segments {
		s := &t.Device.Segments[i]
		end.Reserved = add(end.Reserved, s.TotalSize)
		var sum int64
		at := s.Address
		tiled := true
		for _, b := range s.Blocks {
			tiled = tiled && b.Address == at
			at += uint64(b.Size)
			sum = add(sum, b.Size)
			if b.State != snapshot.Inactive {
				end.Active = add(end.Active, b.Size)
			}
			if b.State == snapshot.ActiveAllocated {
				end.Allocated = add(end.Allocated, b.Size)
			}
		}
		if !tiled || sum != s.TotalSize {
			if loose++; loose == 1 {
				first, filled = s, sum
			}
		}
	}
	switch {
	case loose == 1:
		t.damagef("the blocks of the segment at %#x don't tile it: %d of %d bytes", first.Address, filled, first.TotalSize)
	case loose > 1:
		t.damagef("the blocks of %d segments don't tile them; at %#x they are %d of %d bytes", loose, first.Address, filled,
			first.TotalSize)
	}
	if end.Active != t.End.Active || end.Reserved != t.End.Reserved {
		t.damagef("after the last event %d bytes are active and %d reserved, by the final segments %d and %d",
			t.End.Active, t.End.Reserved, end.Active, end.Reserved)
	}
}
