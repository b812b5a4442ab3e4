package diagnose

import (
	"fmt"
	"math"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/vramscope/vramscope/internal/testing/logtext"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
)

// stretched is a shipped recording as if it had taken that long: shipped ones
// were made on a stand-in device and last a moment.
func stretched(t *testing.T, name string, length time.Duration) *snapshot.Snapshot {
	t.Helper()
	s := recording(t, name)
	times := s.Devices[0].Events.TimeUS
	first, last := times[0], times[len(times)-1]
	scale := float64(length.Microseconds()) / float64(last-first)
	stretch := func(at int64) int64 { return first + int64(math.Ceil(float64(at-first)*scale)) }
	for i, at := range times {
		times[i] = stretch(at)
	}
	for i := range s.Annotations {
		s.Annotations[i].TimeUS = stretch(s.Annotations[i].TimeUS)
	}
	return s
}

// clockSpan is the time of a device's curve, in seconds since 1970.
func clockSpan(dev *report.Device) (first, last float64) {
	times := dev.Curve.TimeUS
	return float64(times[0]) / 1e6, float64(times[len(times)-1]) / 1e6
}

// reservedAt is what a device had reserved at a time, in bytes.
func reservedAt(dev *report.Device, at float64) float64 {
	times := dev.Curve.TimeUS
	i := sort.Search(len(times), func(i int) bool { return float64(times[i])/1e6 >= at })
	if i == len(times) || float64(times[i])/1e6 > at {
		i--
	}
	return float64(dev.Curve.Reserved[max(i, 0)])
}

// watchedBy are nvidia-smi's readings of a recording: reserved memory and half a
// GiB outside PyTorch, from a while before it began.
func watchedBy(t *testing.T, s *snapshot.Snapshot, every time.Duration, row func(at time.Time, mib int64) string) string {
	t.Helper()
	dev := judged(t, input{name: "s", snapshot: s}).Devices[0]
	first, last := clockSpan(&dev)
	var b strings.Builder
	for at := first - 20*every.Seconds() - 0.3*every.Seconds(); at < last+5*every.Seconds(); at += every.Seconds() {
		used := 600.0
		if at >= first {
			used = 512 + reservedAt(&dev, at)/(1<<20)
		}
		b.WriteString(row(time.UnixMicro(int64(at*1e6)).UTC(), int64(used)) + "\n")
	}
	return b.String()
}

// TestClock brings readings made from a recording back onto its clock.
func TestClock(t *testing.T) {
	const layout = "2006/01/02 15:04:05.000"
	const run = "growing_list__step_cache/snapshot_all.pickle.gz"
	stamped := func(zone time.Duration) func(time.Time, int64) string {
		return func(at time.Time, mib int64) string {
			return fmt.Sprintf("%s, 0, %d MiB, 81559 MiB", at.Add(zone).Format(layout), mib)
		}
	}
	const head = "timestamp, index, memory.used [MiB], memory.total [MiB]\n"
	tests := []struct {
		name   string
		length time.Duration
		every  time.Duration
		head   string
		row    func(time.Time, int64) string
		method string // "" when it can't be said
		offset time.Duration
	}{
		{"in UTC", 10 * time.Minute, time.Second, head, stamped(0), "timestamps", 0},
		{"eight hours ahead", 10 * time.Minute, time.Second, head, stamped(8 * time.Hour), "timestamps", -8 * time.Hour},
		{"India", 10 * time.Minute, 5 * time.Second, head, stamped(5*time.Hour + 30*time.Minute), "timestamps", -5*time.Hour - 30*time.Minute},
		{"longer than a zone's step", 40 * time.Minute, 5 * time.Second, head, stamped(-7 * time.Hour), "timestamps", 7 * time.Hour},
		{"another day", 10 * time.Minute, time.Second, head, stamped(48 * time.Hour), "", 0},
		{"without times", 10 * time.Minute, time.Second, "index, memory.used [MiB], memory.total [MiB]\n",
			func(_ time.Time, mib int64) string { return fmt.Sprintf("0, %d MiB, 81559 MiB", mib) }, "curves", 0},
		{"without times, too seldom", 10 * time.Minute, 3 * time.Minute, "index, memory.used [MiB], memory.total [MiB]\n",
			func(_ time.Time, mib int64) string { return fmt.Sprintf("0, %d MiB, 81559 MiB", mib) }, "", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := stretched(t, run, test.length)
			text := test.head + watchedBy(t, s, test.every, test.row)
			doc := judged(t, input{name: "snapshot.pickle", snapshot: s}, input{name: "gpu.csv", text: text})
			if len(doc.Clocks) != 1 {
				t.Fatalf("clocks %+v", doc.Clocks)
			}
			c := doc.Clocks[0]
			if test.method == "" {
				if c.Method != nil || c.Confidence != nil || c.OffsetSeconds != nil || c.Reason == "" {
					t.Errorf("clock %s, want none", said(c))
				}
				return
			}
			if c.Method == nil || *c.Method != test.method || *c.Confidence < 0.6 || c.GPU == nil || c.Device == nil {
				t.Fatalf("clock %s", said(c))
			}
			if c.OffsetSeconds != nil && *c.OffsetSeconds != test.offset.Seconds() {
				t.Errorf("offset %v, want %v", *c.OffsetSeconds, test.offset.Seconds())
			}
			misplaced(t, &doc.Devices[0], c.Track)
			if c.OutsideBytes == nil || *c.OutsideBytes < 500<<20 || *c.OutsideBytes > 524<<20 {
				t.Errorf("%v outside PyTorch, want 512 MiB", c.OutsideBytes)
			}
			if m := doc.Devices[0].AtPeak; m.CUDAContext == nil || *m.CUDAContext != *c.OutsideBytes {
				t.Errorf("context %v", m.CUDAContext)
			}
		})
	}
}

func said(c report.Clock) string {
	method, confidence := "null", math.NaN()
	if c.Method != nil {
		method, confidence = *c.Method, *c.Confidence
	}
	return fmt.Sprintf("%s, %.2f sure: %s", method, confidence, c.Reason)
}

// misplaced fails when readings on the recording's clock are not what it had
// reserved then, half a GiB more.
func misplaced(t *testing.T, dev *report.Device, track []report.Instant) {
	t.Helper()
	first, last := clockSpan(dev)
	within, wrong := 0, 0
	for _, x := range track {
		at := float64(x.MicrosUTC) / 1e6
		if at < first || at > last {
			continue
		}
		within++
		if d := float64(x.Bytes) - reservedAt(dev, at) - 512<<20; math.Abs(d) > 64<<20 {
			wrong++
		}
	}
	if within < 10 || wrong*10 > within {
		t.Errorf("%d of %d readings lie where the recording had something else", wrong, within)
	}
}

// TestLogClock places a log's steps by their time stamps and by their memory.
func TestLogClock(t *testing.T) {
	s := stretched(t, "growing_list__step_cache/snapshot_all.pickle.gz", 10*time.Minute)
	dev := judged(t, input{name: "s", snapshot: s}).Devices[0]
	stamps := logtext.Steps(len(dev.StepEndsUS), func(i int) string {
		at := time.UnixMicro(dev.StepEndsUS[i]).UTC().Add(2*time.Hour + 300*time.Millisecond)
		return fmt.Sprintf("%s INFO step %d loss 1.5", at.Format("2006-01-02 15:04:05,000"), i)
	})
	memory := fileInput(t, "../testdata/recordings/growing_list__step_cache/log.txt")
	for _, test := range []struct {
		name, text, method string
	}{{"stamps", stamps, "timestamps"}, {"memory", memory.text, "steps"},
		{"nothing", logtext.Steps(8, func(i int) string { return fmt.Sprintf("step %d loss 1.5", i) }), ""}} {
		t.Run(test.name, func(t *testing.T) {
			doc := judged(t, input{name: "s", snapshot: s}, input{name: "train.log", text: test.text})
			c := doc.Clocks[0]
			if test.method == "" {
				if c.Method != nil {
					t.Errorf("clock %s", said(c))
				}
				return
			}
			if c.Method == nil || *c.Method != test.method || *c.Confidence < 0.8 {
				t.Fatalf("clock %s", said(c))
			}
			if c.OffsetSeconds != nil && *c.OffsetSeconds != -7200 {
				t.Errorf("offset %v", *c.OffsetSeconds)
			}
		})
	}
}
