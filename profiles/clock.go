package profiles

import (
	"math"

	"github.com/vramscope/vramscope/snapshot"
)

// maxTimeUS is the largest time that can be told in nanoseconds.
const maxTimeUS = math.MaxInt64 / 1000

// clock tells when events happened, on the same scale for all devices.
type clock struct {
	recorded bool
	start    int64 // microseconds since the Unix epoch; 0 without recorded times
}

// newClock takes the recorded times if every event has one and less than one in
// a hundred lies before an earlier event's; else the event's index is the time.
func newClock(r Recording) clock {
	c := clock{recorded: true, start: math.MaxInt64}
	events := 0
	for _, d := range r.Devices {
		e := &d.Timeline.Device.Events
		if e.Len() == 0 {
			continue
		}
		events += e.Len()
		late := 0
		latest := int64(0)
		for i := range e.Len() {
			t := e.TimeOf(i)
			if t <= 0 || t > maxTimeUS {
				return clock{}
			}
			if t < latest {
				late++
			}
			latest = max(latest, t)
			c.start = min(c.start, t)
		}
		if late*100 > e.Len() {
			return clock{}
		}
	}
	if events == 0 {
		return clock{}
	}
	return c
}

// times are the instants of one device's events.
type times struct {
	clock
	us []int64 // never falling; nil: the index
}

// times looks at the events of a device. Where a time lies before an earlier
// event's, that one's is taken: the order of events is the recorder's own.
func (c clock) times(e *snapshot.Events) times {
	t := times{clock: c}
	if !c.recorded || e.Len() == 0 {
		return t
	}
	t.us = e.TimeUS
	for i := 1; i < len(t.us); i++ {
		if t.us[i] >= t.us[i-1] {
			continue
		}
		t.us = append([]int64(nil), t.us...)
		for ; i < len(t.us); i++ {
			t.us[i] = max(t.us[i], t.us[i-1])
		}
	}
	return t
}

// at is an event's instant in nanoseconds from the beginning of the trace.
func (t times) at(event int) uint64 {
	event = max(event, 0)
	if t.us == nil {
		return uint64(event) * 1000
	}
	if event >= len(t.us) { // after the last event
		return uint64(t.us[len(t.us)-1]-t.start)*1000 + 1000
	}
	return uint64(t.us[event]-t.start) * 1000
}
