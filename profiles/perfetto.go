package profiles

import (
	"bufio"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Longest lists of a trace that are written in full.
const (
	maxSpans    = 100_000 // phases
	maxInstants = 20_000  // failed requests, changes of what is reserved
)

// Tracks of a device, as offsets from its first uuid.
const (
	deviceTrack = iota
	stepTrack
	oomTrack
	segmentTrack
	counterTrack    // and those that follow
	tracksPerDevice = counterTrack + numCounters
)

// trace writes one Perfetto trace.
type trace struct {
	w *bufio.Writer

	allEvents, stretches int // how counters are thinned out (counters.go)

	body  message // of the packet being written
	event message // within it

	// Of the device that is being written:
	times    times
	sequence int
	names    map[string]uint64 // interned, as are the names of notes
	notes    map[string]uint64
	interned message // to go with the next packet
}

// WritePerfetto writes the whole recording as a Perfetto trace: below one track
// for each device, slices for steps and phases, instants for failed requests
// and for changes of what is reserved, and a counter for each of the allocator's
// curves and for every category. Time is the recorded one, in nanoseconds since
// the Unix epoch, else the event's index in microseconds; the device's track
// says so. The counters of a long recording are thinned out (counters.go), and
// that is said there, too.
func WritePerfetto(w io.Writer, r Recording) error {
	x := &trace{w: bufio.NewWriterSize(w, 1<<16), allEvents: allEvents, stretches: maxStretches}
	return x.write(r)
}

func (x *trace) write(r Recording) error {
	recorded := timed(r)
	for i, d := range r.Devices {
		x.sequence = i + 1
		x.names, x.notes = map[string]uint64{}, map[string]uint64{}
		if x.times = nil; recorded {
			x.times = timesOf(&d.Timeline.Device.Events)
		}
		x.device(d)
	}
	return x.w.Flush()
}

// packet writes the body that was put together; errors come with the last flush.
func (x *trace) packet() {
	var head [2 * 10]byte
	x.w.Write(protowire.AppendVarint(protowire.AppendTag(head[:0], tracePacket, protowire.BytesType), uint64(len(x.body))))
	x.w.Write(x.body)
	x.body = x.body[:0]
}

// emit writes a packet with the event that was put together.
func (x *trace) emit(at uint64) {
	x.body = x.body.uint(packetTimestamp, at).uint(packetSequence, uint64(x.sequence)).uint(packetFlags, sequenceGoesOn)
	if len(x.interned) > 0 {
		x.body = x.body.sub(packetInterned, x.interned)
		x.interned = x.interned[:0]
	}
	x.body = x.body.sub(packetEvent, x.event)
	x.packet()
}

// begin puts the beginning of an event together.
func (x *trace) begin(kind uint64, track int) {
	x.event = x.event[:0].uint(eventType, kind).uint(eventTrack, x.uuid(track))
}

// name adds a name that recurs.
func (x *trace) name(s string) {
	x.event = x.event.uint(eventNameID, x.intern(x.names, internedEventName, s))
}

// note adds a number that the viewer shows beside the event.
func (x *trace) note(key string, n int64) {
	x.event = x.event.sub(eventNotes, message(nil).uint(noteNameID, x.intern(x.notes, internedNoteName, key)).int(noteInt, n))
}

func (x *trace) intern(table map[string]uint64, field protowire.Number, s string) uint64 {
	id, ok := table[s]
	if !ok {
		id = uint64(len(table) + 1)
		table[s] = id
		x.interned = x.interned.sub(field, message(nil).uint(internedID, id).text(internedText, s))
	}
	return id
}

func (x *trace) uuid(track int) uint64 { return uint64(x.sequence*tracksPerDevice + track) }

// track describes a track below the device's.
func (x *trace) track(track int, name, description string, more message) {
	d := message(nil).uint(trackUUID, x.uuid(track)).uint(trackParent, x.uuid(deviceTrack)).text(trackName, name).uint(trackRank,
		uint64(track))
	if description != "" {
		d = d.text(trackDescription, description)
	}
	x.descriptor(append(d, more...))
}

func (x *trace) descriptor(d message) {
	x.body = x.body.uint(packetSequence, uint64(x.sequence)).sub(packetDescriptor, d)
	x.packet()
}

// device writes all of one device.
func (x *trace) device(d Device) {
	t := d.Timeline
	changes := segmentChanges(t)
	c := newCounters(x, d)
	spans := len(d.Classes.Before)
	for i := range d.Classes.Steps {
		spans += len(d.Classes.Steps[i].Phases)
	}
	var labels []string
	if c.thinned() {
		labels = append(labels, fmt.Sprintf("counters: the highest and lowest of every %d of %d events", c.stretch,
			t.Device.Events.Len()))
	}
	if spans > maxSpans {
		labels = append(labels, fmt.Sprintf("phases left out: %d", spans))
	}
	if changes > maxInstants {
		labels = append(labels, fmt.Sprintf("changes of reserved memory left out: %d", changes))
	}
	x.describe(d, labels)
	if len(d.Classes.Steps) > 0 {
		x.steps(d, spans <= maxSpans)
	}
	x.ooms(t)
	if changes > 0 && changes <= maxInstants {
		x.segments(t)
	}
	c.write()
}

// describe writes the device's own track. It is no process, since the viewer
// sorts the tracks of a process by name.
func (x *trace) describe(d Device, labels []string) {
	name := fmt.Sprintf("device %d", d.Timeline.Device.Ordinal)
	about := "time is the recorder's"
	if x.times == nil {
		name += " (1 µs is 1 event)"
		about = "no usable times were recorded: an event's index is its time in microseconds"
	}
	for _, l := range labels {
		about += "; " + l
	}
	x.body = x.body.uint(packetFlags, sequenceBegins)
	x.descriptor(message(nil).uint(trackUUID, x.uuid(deviceTrack)).text(trackName, name).text(trackDescription, about).uint(
		trackOrdering, orderExplicit))
}

// steps writes a slice for each step, and within it one for each of its phases.
func (x *trace) steps(d Device, phases bool) {
	x.track(stepTrack, "steps and phases", "", nil)
	span := func(name string, fixed bool, first, last int, notes ...func()) {
		x.begin(sliceBegin, stepTrack)
		if fixed {
			x.name(name)
		} else {
			x.event = x.event.text(eventName, name)
		}
		x.note("first_event", int64(first))
		x.note("last_event", int64(last))
		for _, n := range notes {
			n()
		}
		x.emit(x.times.at(first))
	}
	end := func(last int) {
		x.begin(sliceEnd, stepTrack)
		x.emit(x.times.at(last + 1))
	}
	inner := func(spans []classify.PhaseSpan) {
		if !phases {
			return
		}
		for _, p := range spans {
			span(p.Phase.String(), true, p.FirstEvent, p.LastEvent)
			end(p.LastEvent)
		}
	}
	if first := d.Classes.Steps[0].FirstEvent; first > 0 {
		span("before the first step", true, 0, first-1)
		inner(d.Classes.Before)
		end(first - 1)
	}
	for i := range d.Classes.Steps {
		s := &d.Classes.Steps[i]
		span(fmt.Sprintf("step %d", s.Number), false, s.FirstEvent, s.LastEvent,
			func() { x.note("peak_allocated_bytes", s.PeakAllocated) })
		inner(s.Phases)
		end(s.LastEvent)
	}
}

// ooms writes an instant for each failed request.
func (x *trace) ooms(t *timeline.Timeline) {
	if len(t.OOMs) == 0 {
		return
	}
	x.track(oomTrack, "out of memory", "requests that failed", nil)
	for i := range t.OOMs[:min(len(t.OOMs), maxInstants)] {
		o := &t.OOMs[i]
		x.begin(instant, oomTrack)
		x.event = x.event.text(eventName, fmt.Sprintf("out of memory: %.2f GiB asked for", float64(o.Requested)/(1<<30)))
		x.note("event", int64(o.Event))
		x.note("requested_bytes", o.Requested)
		x.note("allocated_bytes", o.Allocated)
		x.note("reserved_bytes", o.Reserved)
		x.note("largest_free_block_bytes", o.Largest)
		if o.DeviceFree >= 0 {
			x.note("device_free_bytes", o.DeviceFree)
		}
		x.emit(x.times.at(o.Event))
	}
}

// changesReserved reports whether an action takes memory from the driver or gives it back.
func changesReserved(a snapshot.Action) bool {
	return a >= snapshot.SegmentAlloc && a <= snapshot.SegmentUnmap
}

func segmentChanges(t *timeline.Timeline) (n int) {
	for _, a := range t.Device.Events.Action {
		if changesReserved(a) {
			n++
		}
	}
	return n
}

// segments writes an instant for each change of what is reserved.
func (x *trace) segments(t *timeline.Timeline) {
	x.track(segmentTrack, "segments", "memory taken from the driver and given back", nil)
	e := &t.Device.Events
	for i, a := range e.Action {
		if !changesReserved(a) {
			continue
		}
		x.begin(instant, segmentTrack)
		x.name(t.Snapshot.ActionName(a))
		x.note("event", int64(i))
		x.note("bytes", e.Size[i])
		x.emit(x.times.at(i))
	}
}
