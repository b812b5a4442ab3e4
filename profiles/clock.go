package profiles

import (
	"math"

	"github.com/vramscope/vramscope/snapshot"
)

// maxTimeUS is the largest time that can be told in nanoseconds.
const maxTimeUS = math.MaxInt64 / 1000

// timed reports whether the recorded times can be a clock: every event has one,
// and less than one in a hundred lies before an earlier event's.
func timed(r Recording) bool {
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
				return false
			}
			if t < latest {
				late++
			}
			latest = max(latest, t)
		}
		if late*100 > e.Len() {
			return false
		}
	}
	return events > 0
}

// times are the instants of one device's events: microseconds that never fall.
// Without, an event's index is its time.
type times []int64

// timesOf looks at the events of a device. Where a time lies before an earlier
// event's, that one's is taken: the order of events is the recorder's own.
func timesOf(e *snapshot.Events) times {
	t := e.TimeUS
	for i := 1; i < len(t); i++ {
		if t[i] >= t[i-1] {
			continue
		}
		t = append([]int64(nil), t...)
		for ; i < len(t); i++ {
			t[i] = max(t[i], t[i-1])
		}
	}
	return t
}

// at is an event's instant in nanoseconds; one before the first event is at the
// first, one after the last a microsecond later.
func (t times) at(event int) uint64 {
	event = max(event, 0)
	switch {
	case t == nil:
		return uint64(event) * 1000
	case event >= len(t):
		return uint64(t[len(t)-1])*1000 + 1000
	}
	return uint64(t[event]) * 1000
}
