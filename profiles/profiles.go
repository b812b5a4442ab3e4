// Package profiles writes a recording in the formats of viewers that people
// already use: pprof, the Perfetto UI and speedscope.
//
//	r := profiles.Recording{View: stacks.New(s)}
//	for i := range s.Devices {
//		t := timeline.New(s, &s.Devices[i])
//		r.Devices = append(r.Devices, profiles.Device{Timeline: t, Classes: classify.New(t, classify.Options{})})
//	}
//	err := profiles.WritePprof(w, r, profiles.Peak)
//
// Stacks are shown as their reader thinks of them (frames.go): frames of the
// interpreter, of the recorder and of the allocator, and those without a name,
// are left out. Bytes are never left out: what has no stack has a frame in
// square brackets that says so.
package profiles

import (
	"fmt"
	"strconv"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/stacks"
	"github.com/vramscope/vramscope/timeline"
)

// Recording is one snapshot with what is known about its devices.
type Recording struct {
	View    *stacks.View
	Devices []Device
}

// Device is one device's history and what its memory is for.
type Device struct {
	Timeline *timeline.Timeline
	Classes  *classify.Classification
}

// Moment is an instant of a recording: an event's index, or one of Peak and End.
type Moment int

// The moments that every device has.
const (
	Peak Moment = -2 // the first instant at which most bytes are allocated
	End  Moment = -1 // after the last event
)

// ParseMoment reads "peak", "end" or an event's index.
func ParseMoment(text string) (Moment, error) {
	switch text {
	case "peak":
		return Peak, nil
	case "end":
		return End, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%q is neither peak nor end nor an event's index", text)
	}
	return Moment(n), nil
}

// event is the moment on a device; timeline.NoEvent stands for the state
// before the first event.
func (m Moment) event(t *timeline.Timeline) (int, error) {
	last := t.Device.Events.Len() - 1
	switch {
	case m == Peak:
		return t.Peaks.Allocated.Event, nil
	case m == End:
		return last, nil
	case int(m) > last:
		return 0, fmt.Errorf("event %d: device %d has events 0 to %d", m, t.Device.Ordinal, last)
	}
	return int(m), nil
}

// name is the moment in words.
func (m Moment) name(event int) string {
	switch {
	case m == Peak && event == timeline.NoEvent:
		return "at the peak of allocated memory, before the first event"
	case m == Peak:
		return fmt.Sprintf("at the peak of allocated memory, event %d", event)
	case m == End:
		return "at the end"
	}
	return fmt.Sprintf("after event %d", event)
}
