package profiles

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// fields is a decoded message: numbers, texts and messages by field, in order.
type fields map[protowire.Number][]value

type value struct {
	n uint64
	b []byte
}

func decode(t *testing.T, b []byte) fields {
	t.Helper()
	out := fields{}
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		b = b[n:]
		var v value
		switch kind {
		case protowire.VarintType:
			v.n, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			v.b, n = protowire.ConsumeBytes(b)
		default:
			t.Fatalf("field %d is of kind %d", field, kind)
		}
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		b = b[n:]
		out[field] = append(out[field], v)
	}
	return out
}

func (f fields) n(field protowire.Number) uint64 {
	if v := f[field]; len(v) > 0 {
		return v[0].n
	}
	return 0
}

func (f fields) text(field protowire.Number) string {
	if v := f[field]; len(v) > 0 {
		return string(v[0].b)
	}
	return ""
}

// sample is one counter's value, in the order of the file.
type sample struct {
	at    uint64
	value int64
}

// readTrace is what a viewer would make of one device's part of a trace.
type readTrace struct {
	names    map[uint64]string // of tracks
	about    string
	counters map[string][]sample
	slices   []string // indented by depth
	instants []string
	sums     []sample // allocated less all categories, after each instant
}

// readPerfetto decodes a trace by the schema's field numbers.
func readPerfetto(t *testing.T, file []byte) []*readTrace {
	t.Helper()
	var out []*readTrace
	var depth int
	var interned map[uint64]string
	var last uint64
	now := map[string]int64{}
	settle := func() {
		if len(now) == 0 {
			return
		}
		r := out[len(out)-1]
		sum := now["allocated"]
		for name, v := range now {
			if name != "allocated" && name != "reserved" && name != "active" && name != "requested" {
				sum -= v
			}
		}
		r.sums = append(r.sums, sample{last, sum})
	}
	for _, packet := range decode(t, file)[tracePacket] {
		p := decode(t, packet.b)
		if p.n(packetFlags) == sequenceBegins {
			settle()
			if depth != 0 {
				t.Error("slices don't end")
			}
			out = append(out, &readTrace{names: map[uint64]string{}, counters: map[string][]sample{}})
			interned, now, depth, last = map[uint64]string{}, map[string]int64{}, 0, 0
		}
		r := out[len(out)-1]
		if p.n(packetSequence) != uint64(len(out)) {
			t.Fatalf("sequence %d of %d", p.n(packetSequence), len(out))
		}
		for _, d := range p[packetDescriptor] {
			track := decode(t, d.b)
			r.names[track.n(trackUUID)] = track.text(trackName)
			if track.n(trackParent) == 0 {
				r.about = track.text(trackName) + ": " + track.text(trackDescription)
			} else if r.names[track.n(trackParent)] == "" {
				t.Errorf("%s has no parent", track.text(trackName))
			}
		}
		for _, i := range p[packetInterned] {
			for _, n := range decode(t, i.b)[internedEventName] {
				e := decode(t, n.b)
				interned[e.n(internedID)] = e.text(internedText)
			}
		}
		for _, e := range p[packetEvent] {
			event, at := decode(t, e.b), p.n(packetTimestamp)
			track := r.names[event.n(eventTrack)]
			name := event.text(eventName)
			if name == "" {
				name = interned[event.n(eventNameID)]
			}
			switch event.n(eventType) {
			case counter:
				if at != last {
					if at < last {
						t.Fatalf("%s: %d after %d", track, at, last)
					}
					settle()
					last = at
				}
				now[track] = int64(event.n(eventCounter))
				r.counters[track] = append(r.counters[track], sample{at, now[track]})
			case sliceBegin:
				r.slices = append(r.slices, strings.Repeat("  ", depth)+name)
				depth++
			case sliceEnd:
				if depth--; depth < 0 {
					t.Fatal("a slice ends that didn't begin")
				}
			case instant:
				r.instants = append(r.instants, name)
			}
			if track == "" {
				t.Fatal("an event without a track")
			}
		}
	}
	settle()
	if depth != 0 {
		t.Error("slices don't end")
	}
	return out
}

// TestPerfetto checks every recording: at every instant the categories sum to
// what is allocated, the highest values are the peaks, the last ones the end.
func TestPerfetto(t *testing.T) {
	forEachRecording(t, func(t *testing.T, r Recording) {
		var b bytes.Buffer
		if err := WritePerfetto(&b, r); err != nil {
			t.Fatal(err)
		}
		traces := readPerfetto(t, b.Bytes())
		if len(traces) != len(r.Devices) {
			t.Fatalf("%d devices, want %d", len(traces), len(r.Devices))
		}
		for i, x := range traces {
			checkTrace(t, x, r.Devices[i])
		}
	})
}

func checkTrace(t *testing.T, x *readTrace, d Device) {
	t.Helper()
	tl := d.Timeline
	for _, s := range x.sums {
		if s.value != 0 {
			t.Fatalf("at %d the categories lack %d bytes of what is allocated", s.at, s.value)
		}
	}
	for name, c := range map[string]struct {
		peak timeline.Peak
		end  int64
	}{
		"allocated": {tl.Peaks.Allocated, tl.End.Allocated}, "reserved": {tl.Peaks.Reserved, tl.End.Reserved},
		"active": {tl.Peaks.Active, tl.End.Active}, "requested": {tl.Peaks.Requested, tl.End.Requested},
	} {
		samples := x.counters[name]
		if len(samples) == 0 {
			t.Fatalf("%s has no value", name)
		}
		high := samples[0]
		for _, s := range samples {
			if s.value > high.value {
				high = s
			}
		}
		if high.value != c.peak.Bytes || samples[len(samples)-1].value != c.end {
			t.Errorf("%s: highest %d, last %d; want %d, %d", name, high.value, samples[len(samples)-1].value, c.peak.Bytes, c.end)
		}
	}
	steps := 0
	for _, s := range x.slices {
		if strings.HasPrefix(s, "step ") {
			steps++
		}
	}
	if steps != len(d.Classes.Steps) {
		t.Errorf("%d slices for %d steps", steps, len(d.Classes.Steps))
	}
}

// TestPerfettoGolden shows the tracks, slices and instants of one trace.
func TestPerfettoGolden(t *testing.T) {
	var b bytes.Buffer
	if err := WritePerfetto(&b, recording(t, small)); err != nil {
		t.Fatal(err)
	}
	x := readPerfetto(t, b.Bytes())[0]
	text := x.about + "\n\n" + strings.Join(x.slices, "\n") + "\n\n" + strings.Join(x.instants, "\n") + "\n"
	for i := range numCounters {
		name := x.names[uint64(tracksPerDevice+counterTrack+i)]
		if samples := x.counters[name]; len(samples) > 0 {
			text += fmt.Sprintf("\n%s: %d values, first %d, last %d", name, len(samples), samples[0].value, samples[len(samples)-1].value)
		}
	}
	golden(t, "perfetto.txt", text+"\n")
}

// TestPerfettoOOM has an instant where a request failed.
func TestPerfettoOOM(t *testing.T) {
	var b bytes.Buffer
	if err := WritePerfetto(&b, recording(t, "qwen_vocab_oom__05b/snapshot_python.pickle.gz")); err != nil {
		t.Fatal(err)
	}
	if x := readPerfetto(t, b.Bytes())[0]; !strings.Contains(strings.Join(x.instants, "\n"), "out of memory: 27.82 GiB asked for") {
		t.Errorf("instants %q", x.instants)
	}
}

// TestThinning writes a trace of a few instants only: no peak is lost, and
// what is written still sums up.
func TestThinning(t *testing.T) {
	for seed := range uint64(20) {
		run := recorder.Simulate(recorder.Program{Seed: seed, Events: 3000})
		s, err := snapshot.Decode(bytes.NewReader(run.Recording.Dump(recorder.Style{Protocol: 4, Era: recorder.V2_15})), snapshot.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := of(s)
		var whole, thin bytes.Buffer
		if err := WritePerfetto(&whole, r); err != nil {
			t.Fatal(err)
		}
		x := trace{w: bufio.NewWriter(&thin), allEvents: 100, stretches: 20}
		if err := x.write(r); err != nil {
			t.Fatal(err)
		}
		traces := readPerfetto(t, thin.Bytes())
		for i, d := range r.Devices {
			checkTrace(t, traces[i], d)
			if n := d.Timeline.Device.Events.Len(); n > 100 && !strings.Contains(traces[i].about, fmt.Sprintf("of %d events", n)) {
				t.Errorf("the trace doesn't say that it is thinned out: %s", traces[i].about)
			}
		}
		if thin.Len()*2 > whole.Len() {
			t.Errorf("seed %d: %d bytes of %d", seed, thin.Len(), whole.Len())
		}
	}
}
