package logs

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/oom"
	"github.com/vramscope/vramscope/diagnose/series"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// traced tells what a trace's memory events show by themselves: whether what
// is left at the lowest point of each step grows from step to step.
func (w *witness) traced(source int, t *evidence.Trace) {
	w.tracedFailure(source, t)
	for i := range t.Devices {
		d := &t.Devices[i]
		if !d.Type.IsAccelerator() {
			continue
		}
		floors, first := stepFloors(t.Steps, &d.Levels)
		g, ok := series.Rising(floors)
		if !ok {
			continue
		}
		w.add(report.Finding{ID: "memory_grows", Severity: report.Warning, Confidence: 0.8, Code: how("loop"),
			Title: fmt.Sprintf("What is left at the lowest point of each step grows by %s a step on device %d",
				units.Bytes(int64(g.PerPoint)), d.ID),
			Evidence: []string{fmt.Sprintf("%s: %s more over %s from ProfilerStep#%d on", w.name(source),
				units.Bytes(int64(g.Total)), units.Plural(len(floors), "step"), first),
				where(t, d)},
			Fix: advice.Text("log.trace_grows")})
	}
}

// tracedFailure tells of the last request of a trace that found no room, where
// neither a recording nor a message does. What was free on the device is not in traces.
func (w *witness) tracedFailure(source int, t *evidence.Trace) {
	told := func(d report.Device) bool { return len(d.OOMs) > 0 }
	if len(t.Failed) == 0 || len(w.doc.Evidence.OOMMessages) > 0 || slices.ContainsFunc(w.doc.Devices, told) {
		return
	}
	last := t.Failed[len(t.Failed)-1]
	m := evidence.OOMMessage{RequestedBytes: &last.Bytes, AllocatedBytes: evidence.Known(last.TotalAllocated),
		ReservedUnallocatedBytes: new(max(0, last.TotalReserved-last.TotalAllocated)), Backend: "CUDA"}
	for _, d := range t.Devices {
		if d.Type == last.Type && d.ID == last.Device {
			m.CapacityBytes = evidence.Known(d.CapacityBytes)
		}
	}
	g := oom.Judge(&m)
	if g.Capacity <= 0 || last.TotalReserved < 0 {
		g.Why = "a trace doesn't tell the cause"
	}
	f := report.Finding{ID: "oom_true_shortage", Severity: report.Critical, Confidence: g.Confidence,
		Title: fmt.Sprintf("Out of memory on device %d: %s asked for; %s", last.Device, units.Bytes(last.Bytes),
			strings.ReplaceAll(g.Why, "the message", "the trace")),
		Evidence: []string{fmt.Sprintf("%s: %s, the last with %s", w.name(source), units.Plural(len(t.Failed),
			"[OutOfMemory] event"), g.Text())},
		Fix: new(g.Change()), Code: how("oom")}
	f.ID = "oom_" + g.Cause
	w.add(f)
}

// stepFloors are the lowest levels within each step; nil where the steps are
// too short for the curve's slots.
func stepFloors(steps []evidence.Span, l *evidence.Levels) ([]float64, int64) {
	if len(steps) < series.Points {
		return nil, 0
	}
	var out []float64
	next := 0
	for _, s := range steps {
		if s.Duration < 8*l.Width {
			return nil, 0
		}
		low := math.Inf(1)
		for next < len(l.Slots) && l.Slots[next].Micros < s.Micros {
			next++
		}
		for k := next; k < len(l.Slots) && l.Slots[k].Micros < s.Micros+s.Duration; k++ {
			low = min(low, float64(l.Slots[k].Low))
		}
		if !math.IsInf(low, 1) {
			out = append(out, low)
		}
	}
	return out, steps[0].Step
}

// where says in which step and which of the program's own parts a device's
// memory was largest.
func where(t *evidence.Trace, d *evidence.TraceDevice) string {
	if d.PeakAllocatedBytes <= 0 {
		return "the trace carries no totals"
	}
	text := units.Bytes(d.PeakAllocatedBytes) + " allocated at most"
	var parts []string
	for _, spans := range [][]evidence.Span{t.Steps, t.Annotations} {
		if s := innermost(spans, d.PeakMicros); s != nil {
			parts = append(parts, s.Name)
		}
	}
	if len(parts) > 0 {
		text += ", in " + strings.Join(parts, ", ")
	}
	return text
}

// innermost is the shortest span around a time.
func innermost(spans []evidence.Span, at float64) *evidence.Span {
	var found *evidence.Span
	for i := range spans {
		if s := &spans[i]; s.Micros <= at && at <= s.Micros+s.Duration && (found == nil || s.Duration < found.Duration) {
			found = s
		}
	}
	return found
}

// traceFacts are what traces show without anything being wrong.
func (w *witness) traceFacts() []string {
	var out []string
	for k := range w.doc.Evidence.Traces {
		t := &w.doc.Evidence.Traces[k]
		text := "a trace with " + units.Plural(t.MemoryEvents, "memory event")
		events := text
		for i := range t.Devices {
			d := &t.Devices[i]
			if !d.Type.IsAccelerator() || d.PeakAllocatedBytes <= 0 {
				continue
			}
			text += fmt.Sprintf("; device %d: %s", d.ID, where(t, d))
			if d.PeakReservedBytes > 0 {
				text += fmt.Sprintf(", %s reserved", units.Bytes(d.PeakReservedBytes))
			}
		}
		if text == events {
			text += ", without totals of a GPU"
		}
		if len(out) == 2 {
			break
		}
		out = append(out, text)
	}
	return out
}

// timelines are what export_memory_timeline's files hold.
func (w *witness) timelines() []string {
	var out []string
	for _, t := range w.doc.Evidence.Timelines {
		order := make([]int, 0, len(t.AtPeak))
		for i, bytes := range t.AtPeak {
			if bytes > 0 && bytes >= t.PeakBytes/100 {
				order = append(order, i)
			}
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(t.AtPeak[b], t.AtPeak[a]) })
		text := "a memory timeline"
		switch {
		case t.Host:
			text += " of the host's memory"
		case strings.Contains(strings.ToLower(w.name(t.Source)), "cpu"): // files of sums alone don't tell
			text += " of the host's memory, by its name,"
		}
		text += " with a peak of " + units.Bytes(t.PeakBytes)
		for i, c := range order {
			sep := ", "
			if i == 0 {
				sep = ": "
			}
			text += sep + units.Bytes(t.AtPeak[c]) + " " + timelineCategories[c]
		}
		out = append(out, text)
	}
	return out
}

// timelineCategories are the profiler's categories in words, in its order.
var timelineCategories = [evidence.TimelineCategories]string{"parameters", "optimizer state", "inputs", "temporaries",
	"activations",
	"gradients", "autograd's own tensors", "tensors of no category"}
