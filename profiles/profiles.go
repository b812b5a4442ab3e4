// Package profiles writes a recording in the formats of viewers that people
// already use: pprof, the Perfetto UI and speedscope.
//
//	r := profiles.Recording{View: frames.New(s)}
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
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Recording is one snapshot with what is known about its devices.
type Recording struct {
	View    *frames.View
	Devices []Device
	// MaxMemory is how many bytes making a profile of stacks may take; 0: no
	// limit. The error about more wraps snapshot.ErrMemory.
	MaxMemory int64
}

// budget is the memory left for making a profile. What it is told is about
// what was measured on a profile of 400,000 samples.
type budget struct{ limit, used int64 }

// take accounts for memory about to be used.
func (b *budget) take(bytes int) error {
	b.used += int64(bytes)
	if b.limit == 0 || b.used <= b.limit {
		return nil
	}
	return &snapshot.Error{Offset: -1, Err: snapshot.ErrMemory, Advice: "Allow more with --max-memory.",
		Cause: fmt.Sprintf("the profile needs more than the %d MiB of memory allowed for making it", b.limit>>20)}
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

// MomentError says that a recording has no such moment.
type MomentError string

func (e MomentError) Error() string { return string(e) }

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
		return 0, MomentError(fmt.Sprintf("event %d: device %d has events 0 to %d", m, t.Device.Ordinal, last))
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
