package timeline

import "sort"

// Life is the time for which an allocation counts as allocated, as positions
// among the events of its device, so that lives compare as plain numbers.
type Life struct {
	Born  int // NoEvent: older than the trace
	Freed int // its free is requested. NoEvent: before the first event; the number of events: not in the trace
}

// Has reports whether a life has begun and isn't over right after an event; NoEvent
// asks for the instant before the first.
func (l Life) Has(event int) bool { return l.Born <= event && event < l.Freed }

// Life is when an allocation is born, and when its free is requested.
func (t *Timeline) Life(id AllocationID) Life { return Life{t.BornAt(id), t.FreedAt(id)} }

// BornAt is the first half of Life, for loops that need no more.
func (t *Timeline) BornAt(id AllocationID) int {
	if b := t.Born[id]; b != Never {
		return int(b)
	}
	return NoEvent
}

// FreedAt is the second half.
func (t *Timeline) FreedAt(id AllocationID) int {
	f := t.FreeRequested[id]
	if f < Before {
		return int(f)
	}
	if f == Before {
		return NoEvent
	}
	return len(t.Device.Events.Action)
}

// BornSince is the first allocation that is born at an event or later, or Len: those
// behind it are, too.
func (t *Timeline) BornSince(event int) AllocationID {
	if event <= NoEvent {
		return 0
	}
	born := t.Born[len(t.older):]
	return AllocationID(len(t.older) + sort.Search(len(born), func(i int) bool { return int(born[i]) >= event }))
}

// Occupies reports whether an allocation has its block right after an event: until
// the free is completed.
func (t *Timeline) Occupies(id AllocationID, event int) bool {
	return t.BornAt(id) <= event && int64(t.Freed[id]) > int64(event)
}

// Outlives reports whether an allocation's free isn't requested within the trace.
func (t *Timeline) Outlives(id AllocationID) bool { return t.FreeRequested[id] == Never }
