package logs_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/diagnose/logs"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
	writer "github.com/vramscope/vramscope/report/text"
	"github.com/vramscope/vramscope/report/view"
)

// TestTraceAlone finds what grows from step to step in a profiler's trace.
func TestTraceAlone(t *testing.T) {
	trace := func(kept int) string {
		var b strings.Builder
		b.WriteString(`{"traceEvents": [`)
		for step := range 10 {
			start := 1e6 * float64(step)
			fmt.Fprintf(&b, `{"ph":"X","cat":"user_annotation","name":"ProfilerStep#%d","ts":%f,"dur":900000},`, step, start)
			level := 2<<30 + step*kept
			for k := range 100 { // up and down again
				bytes := 64 << 20
				if k >= 50 {
					bytes = -bytes
				}
				level += bytes
				if k == 99 {
					level += kept
				}
				fmt.Fprintf(&b, `{"ph":"i","cat":"cpu_instant_event","name":"[memory]","ts":%f,"args":{"Device Type":1,`+
					`"Device Id":0,"Addr":1,"Bytes":%d,"Total Allocated":%d,"Total Reserved":%d}},`,
					start+1000+8000*float64(k), bytes, level, 8<<30)
			}
		}
		return strings.TrimSuffix(b.String(), ",") + `]}`
	}
	if f := found(judged(t, input{name: "trace.json", text: trace(100 << 20)}), "memory_grows"); f == nil ||
		!strings.Contains(f.Title, "100.00 MiB a step") {
		t.Errorf("found %+v", f)
	}
	doc := judged(t, input{name: "trace.json", text: trace(0)})
	if len(doc.Findings) > 0 || !strings.Contains(doc.Verdict.Text, "ProfilerStep#") {
		t.Errorf("found %+v, verdict %q", doc.Findings, doc.Verdict.Text)
	}
}

// TestTraceWithoutTotals: traces of old name no totals, which is said in words.
func TestTraceWithoutTotals(t *testing.T) {
	event := `{"ph":"i","cat":"Memory","name":"[memory]","ts":%d,"args":{"Device Type":1,"Device Id":0,"Bytes":%d}}`
	doc := judged(t, input{name: "trace.json", text: `{"traceEvents": [` + fmt.Sprintf(event, 1, 4096) + "," + fmt.Sprintf(event,
		2, -4096) + `]}`})
	var text bytes.Buffer
	if err := writer.Write(&text, view.Document(doc, view.Terminal), writer.Style{Width: 100}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(text.String(), "2 memory events, without totals of a GPU"); n != 2 || strings.Contains(text.String(),
		"?") {
		t.Errorf("%d times in\n%s", n, text.String())
	}
}

// TestTraceOfFailure tells of a request that failed in a trace, as far as its figures go.
func TestTraceOfFailure(t *testing.T) {
	trace := func(asked, allocated, reserved int64) string {
		event := func(name string, bytes, allocated, reserved int64) string {
			return fmt.Sprintf(`{"ph":"i","name":"[%s]","ts":1,"args":{"Device Type":1,"Device Id":0,"Bytes":%d,`+
				`"Total Allocated":%d,"Total Reserved":%d}}`, name, bytes, allocated, reserved)
		}
		return `{"deviceProperties": [{"id": 0, "name": "NVIDIA A100", "totalGlobalMem": 42949672960}], "traceEvents": [` +
			event("memory", 1024, 1024, 2<<20) + "," + event("OutOfMemory", asked, allocated, reserved) + `]}`
	}
	tests := []struct {
		asked, allocated, reserved int64
		id, says                   string
	}{
		{4 << 30, 38 << 30, 39 << 30, "oom_true_shortage",
			"4.00 GiB asked for; with the 38.00 GiB in use it exceeds the GPU's 40.00 GiB by 2.00 GiB"},
		{4 << 30, 30 << 30, 38 << 30, "oom_fragmentation", "8.00 GiB were free in PyTorch's cache"},
		{4 << 30, 10 << 30, 11 << 30, "oom_unclear", "the trace doesn't say what was free"},
	}
	for _, test := range tests {
		doc := judged(t, input{name: "trace.json", text: trace(test.asked, test.allocated, test.reserved)})
		if f := found(doc, test.id); f == nil || !strings.Contains(f.Title, test.says) || doc.Verdict.Text != f.Title {
			t.Errorf("%+v, want %q", doc.Findings, test.says)
		}
	}
}

// TestTraceBesideOthers: a trace's failed request is told where neither a message nor a recording
// tells of one, and its cause is known where the trace knows the GPU's size and what was reserved.
func TestTraceBesideOthers(t *testing.T) {
	trace := func(size, reserved int64) *evidence.Evidence {
		ev := evidence.New()
		ev.Traces = []evidence.Trace{{Rank: -1, Devices: []evidence.TraceDevice{{Type: 1, ID: 1, CapacityBytes: 7},
			{Type: 1, ID: 0, CapacityBytes: size}}, Failed: []evidence.MemoryEvent{{Bytes: gib, Type: 1},
			{Bytes: 4 * gib, Type: 1, TotalAllocated: 38 * gib, TotalReserved: reserved}}}}
		return ev
	}
	for _, test := range []struct {
		name           string
		size, reserved int64
		id             string
		known          bool
	}{
		{"all figures", 40 * gib, 39 * gib, "oom_true_shortage", true},
		{"without the size", -1, 39 * gib, "oom_unclear", false},
		{"without what was reserved", 48 * gib, -1, "oom_unclear", false},
	} {
		ev := trace(test.size, test.reserved)
		f := found(added(ev), test.id)
		if f == nil || !strings.Contains(f.Title, "device 0: 4.00 GiB asked for") ||
			!strings.Contains(f.Evidence[0], "2 [OutOfMemory] events") ||
			strings.Contains(f.Title, "a trace doesn't tell the cause") == test.known {
			t.Errorf("%s: %+v", test.name, f)
		}
		if doc := added(ev, report.Device{OOMs: []report.OOM{{RequestedBytes: gib}}}); len(doc.Findings) > 0 {
			t.Errorf("%s, beside a recorded failure: %+v", test.name, doc.Findings)
		}
		ev.OOMMessages, ev.Logs = []evidence.OOMMessage{failed(3, 2*gib)}, []evidence.Log{{Steps: &evidence.Steps{}}}
		if doc := added(ev); len(doc.Findings) != 1 || !strings.HasPrefix(doc.Findings[0].Evidence[0], "train.log:3: ") {
			t.Errorf("%s, beside a message: %+v", test.name, doc.Findings)
		}
	}
}

// TestFloorsOfSteps: growth is told of accelerators alone, and of steps that are long enough for the
// curve's slots.
func TestFloorsOfSteps(t *testing.T) {
	for _, test := range []struct {
		name  string
		kind  evidence.DeviceType
		steps int
		width float64 // of a slot, in steps
		want  bool
	}{
		{"ten steps", 1, 10, 0.125, true}, {"slots that are too wide", 1, 10, 0.126, false},
		{"of the host", evidence.CPU, 10, 0.125, false}, {"six steps", 1, 6, 0.125, true}, {"five", 1, 5, 0.125, false},
		{"too few", 1, 4, 0.125, false},
	} {
		const long = 1000.0
		ev := evidence.New()
		trace := evidence.Trace{Rank: -1, Devices: []evidence.TraceDevice{{Type: test.kind, PeakAllocatedBytes: 50 * gib,
			PeakMicros: 1500, Levels: evidence.Levels{Width: test.width * long}}}}
		for i := range test.steps {
			start := long * float64(i)
			trace.Steps = append(trace.Steps, evidence.Span{Name: fmt.Sprintf("ProfilerStep#%d", 7+i), Micros: start,
				Duration: long,
				Step:     int64(7 + i)})
			for k := range 8 {
				low := gib * int64(10+i)
				if k != 4 {
					low += 5 * gib
				}
				trace.Devices[0].Levels.Slots = append(trace.Devices[0].Levels.Slots,
					evidence.Level{Micros: start + long*float64(k)/8,
						Low: low, High: low})
			}
		}
		trace.Annotations = []evidence.Span{{Name: "forward", Micros: 1400, Duration: 500}, {Name: "attention", Micros: 1490,
			Duration: 20},
			{Name: "later", Micros: 1501, Duration: 5}}
		ev.Traces = []evidence.Trace{trace}
		doc := added(ev)
		f := found(doc, "memory_grows")
		if (f != nil) != test.want || f != nil && (!strings.Contains(f.Title, "by 1.00 GiB a step on device 0") ||
			!strings.Contains(f.Evidence[0], "from ProfilerStep#7 on") ||
			f.Evidence[1] != "50.00 GiB allocated at most, in ProfilerStep#8, attention") {
			t.Errorf("%s: %+v", test.name, f)
		}
		if f == nil && test.kind == 1 && !strings.Contains(doc.Verdict.Text, "50.00 GiB allocated at most, in ProfilerStep#8") {
			t.Errorf("%s: %s", test.name, doc.Verdict.Text)
		}
	}
}

// TestTimelines: what a memory timeline held at its peak, the most first, from a hundredth on, and
// whether it is of the host.
func TestTimelines(t *testing.T) {
	at := func(parameters, activations, gradients int64) (b evidence.TimelineBytes) {
		b[evidence.Parameter], b[evidence.Activation], b[evidence.Gradient] = parameters, activations, gradients
		return b
	}
	for _, test := range []struct {
		name     string
		timeline evidence.Timeline
		want     string
	}{
		{"the most first", evidence.Timeline{PeakBytes: 100 * gib, AtPeak: at(30*gib, 69*gib, gib)},
			"with a peak of 100.00 GiB: 69.00 GiB activations, 30.00 GiB parameters, 1.00 GiB gradients"},
		{"less than a hundredth", evidence.Timeline{PeakBytes: 100 * gib, AtPeak: at(31*gib+1, 69*gib, gib-1)},
			"with a peak of 100.00 GiB: 69.00 GiB activations, 31.00 GiB parameters"},
		{"of nothing known", evidence.Timeline{PeakBytes: 100 * gib}, "with a peak of 100.00 GiB"},
		{"of the host", evidence.Timeline{PeakBytes: gib, Host: true}, "of the host's memory with a peak of 1.00 GiB"},
		{"of the host, by its name", evidence.Timeline{PeakBytes: gib, Source: 2},
			"of the host's memory, by its name, with a peak of 1.00 GiB"},
	} {
		ev := evidence.New()
		ev.Timelines = []evidence.Timeline{test.timeline}
		v, ok := logs.Verdict(&report.Document{Evidence: ev, Inputs: []report.Input{{Path: "a"}, {Path: "b"},
			{Path: "mem_CPU.json"}}})
		if !ok || v.Text != "No failure found: a memory timeline "+test.want {
			t.Errorf("%s: %q", test.name, v.Text)
		}
	}
}

// TestThreeTraces: of several traces two are told.
func TestThreeTraces(t *testing.T) {
	ev := evidence.New()
	for i := range 3 {
		ev.Traces = append(ev.Traces, evidence.Trace{MemoryEvents: i + 1, Rank: -1, Devices: []evidence.TraceDevice{{Type: 1,
			ID:                 i,
			PeakAllocatedBytes: gib, PeakReservedBytes: 2 * gib, PeakMicros: 1}}})
	}
	v := added(ev).Verdict
	if n := strings.Count(v.Text, "2.00 GiB reserved"); n != 2 || strings.Contains(v.Text, "device 2") {
		t.Errorf("%s", v.Text)
	}
}
