package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
)

// How much other evidence the terminal shows.
const (
	textGPUs      = 8
	textProcesses = 4
	textMessages  = 5
	sparkWidth    = 40
)

// besideTitles are what a GPU holds outside PyTorch's allocator, in words.
var besideTitles = [...]string{"CUDA context and libraries, outside PyTorch", "other processes",
	"in use on the GPU, not accounted for"}

// beside lists what the GPU holds besides PyTorch's memory, where it is known.
func (m *Moment) beside() [3]*int64 {
	return [...]*int64{m.CUDAContext, m.OtherProcesses, m.Unaccounted}
}

func (t *text) beside(m *Moment) {
	for i, bytes := range m.beside() {
		if bytes != nil && *bytes > 0 {
			t.line("  %12s %7s %s  %s", units.Bytes(*bytes), "", strings.Repeat(" ", 20), besideTitles[i])
		}
	}
}

// evidence sums up what was read besides recordings.
func (t *text) evidence(doc *Document) {
	ev := doc.Evidence
	told := slices.ContainsFunc(doc.Findings, func(f Finding) bool { return strings.HasPrefix(f.ID, "oom_") })
	if ev == nil || len(ev.GPUs)+len(ev.MemorySummaries)+len(ev.Steps)+len(ev.Traces)+len(doc.Clocks) == 0 &&
		(told || len(ev.OOMMessages) == 0) {
		return
	}
	t.head("Logs, nvidia-smi and traces")
	t.gpus(doc)
	for i := range ev.Steps {
		t.steps(doc, ev.Steps[i])
	}
	for i := range ev.OOMMessages {
		if told {
			break // the findings above name every one that matters
		}
		if i == textMessages {
			t.line("  and %s", units.Plural(len(ev.OOMMessages)-i, "more out-of-memory message"))
			break
		}
		t.message(doc, &ev.OOMMessages[i])
	}
	for i, s := range ev.MemorySummaries {
		if i == textMessages {
			t.line("  and %s", units.Plural(len(ev.MemorySummaries)-i, "more memory_summary table"))
			break
		}
		label, device := "  memory_stats     ", ""
		if s.Device != nil {
			label, device = "  memory_summary   ", fmt.Sprintf("device %d: ", *s.Device)
		}
		t.wrap(label, fmt.Sprintf("%s%s allocated (peak %s), %s reserved (peak %s); %s:%d", device, bytesOr(s.AllocatedBytes),
			bytesOr(s.PeakAllocatedBytes), bytesOr(s.ReservedBytes), bytesOr(s.PeakReservedBytes),
			Printable(ShortFile(doc.Inputs[s.Source].Path)), s.Line))
	}
	for _, x := range ev.Traces {
		peak := "without totals of a GPU"
		if x.PeakAllocatedBytes != nil || x.PeakReservedBytes != nil {
			peak = fmt.Sprintf("peak %s allocated and %s reserved", bytesOr(x.PeakAllocatedBytes), bytesOr(x.PeakReservedBytes))
		}
		t.wrap("  trace            ", fmt.Sprintf("%s: %s, %s", Printable(ShortFile(doc.Inputs[x.Source].Path)),
			units.Plural(x.MemoryEvents, "memory event"), peak))
	}
	for _, c := range doc.Clocks {
		if c.Method != nil {
			t.wrap("  clock            ", c.sentence(doc))
		}
	}
}

func (t *text) gpus(doc *Document) {
	for i := range doc.Evidence.GPUs {
		if i == textGPUs {
			t.line("  and %s in %s", units.Plural(len(doc.Evidence.GPUs)-i, "more GPU"), doc.Evidence.GPUs[i].Monitor())
			break
		}
		g := &doc.Evidence.GPUs[i]
		parts := []string{}
		if g.Name != nil {
			parts = append(parts, Printable(*g.Name))
		}
		used := "no memory figure"
		if g.PeakUsedBytes != nil {
			used = units.Bytes(*g.PeakUsedBytes) + " in use"
			if g.Samples != 1 {
				used = "at most " + used
			}
		}
		if g.TotalBytes != nil {
			used += " of " + units.Bytes(*g.TotalBytes)
		}
		parts = append(parts, used, units.Plural(g.Samples, "reading"))
		if g.FirstTime != nil && g.LastTime != nil && *g.FirstTime != *g.LastTime {
			parts = append(parts, g.FirstTime.String()+" to "+g.LastTime.String())
		}
		t.wrap(fmt.Sprintf("  %-17s", fmt.Sprintf("%s GPU %d", g.Monitor(), g.GPU)), strings.Join(parts, ", "))
		t.spark(usedCurve(g))
		t.processes(g.Processes)
	}
}

// processes lists those that hold most.
func (t *text) processes(list []evidence.Process) {
	shown := 0
	for _, p := range largestFirst(list) {
		if shown++; shown > textProcesses {
			more := "processes"
			if len(list) == textProcesses+1 {
				more = "process"
			}
			t.line("%19sand %d more %s", "", len(list)-textProcesses, more)
			return
		}
		name, bytes := "", ""
		if p.Name != nil {
			name = "  " + Printable(*p.Name)
		}
		if p.PeakUsedBytes != nil {
			bytes = "  " + units.Bytes(*p.PeakUsedBytes)
		}
		t.line("%19sprocess %d%s%s", "", p.PID, bytes, name)
	}
}

func (t *text) steps(doc *Document, s *evidence.Steps) {
	text := Printable(ShortFile(doc.Inputs[s.Source].Path)) + ": " + units.Plural(s.Count, "step")
	if s.First != nil && s.Last != nil {
		text += fmt.Sprintf(" (%d to %d)", *s.First, *s.Last)
	}
	if s.MedianStepSeconds != nil {
		text += fmt.Sprintf(", %.3f s each (median)", *s.MedianStepSeconds)
	}
	if s.MaxMemoryBytes != nil {
		text += ", at most " + MostMemory(s)
	}
	t.wrap("  steps            ", text)
	var seconds, memory []float64
	name, bytesOf := stepMemory(s)
	for _, x := range s.Curve {
		if x.Seconds > 0 {
			seconds = append(seconds, x.Seconds)
		}
		if bytes := bytesOf(&x); bytes > 0 {
			memory = append(memory, float64(bytes))
		}
	}
	t.curve("step time", seconds, func(v float64) string { return fmt.Sprintf("%.3g s", v) })
	t.curve(name, memory, func(v float64) string { return units.Bytes(int64(v)) })
}

// MostMemory says which kind of memory a log's largest figures are of.
func MostMemory(s *evidence.Steps) string {
	most, reserved := s.MaxMemoryBytes, s.MaxReservedBytes
	switch {
	case reserved != nil && *most != *reserved:
		return fmt.Sprintf("%s of GPU memory reserved, %s allocated", units.Bytes(*reserved), units.Bytes(*most))
	case reserved != nil:
		return units.Bytes(*most) + " of GPU memory reserved"
	case s.Named:
		return units.Bytes(*most) + " of GPU memory allocated"
	}
	return units.Bytes(*most) + " of GPU memory"
}

// stepMemory is the memory that a log's curve shows, and its name: the
// reserved one where the log has it, as that is what the GPU gave.
func stepMemory(steps *evidence.Steps) (string, func(*evidence.Step) int64) {
	switch {
	case slices.ContainsFunc(steps.Curve, func(s evidence.Step) bool { return s.ReservedBytes > 0 }):
		return "memory reserved", func(s *evidence.Step) int64 { return s.ReservedBytes }
	case steps.Named:
		return "memory allocated", func(s *evidence.Step) int64 { return s.AllocatedBytes }
	}
	return "memory", func(s *evidence.Step) int64 { return s.AllocatedBytes }
}

func (t *text) message(doc *Document, m *evidence.OOMMessage) {
	text := fmt.Sprintf("%s:%d: ", Printable(ShortFile(doc.Inputs[m.Source].Path)), m.Line)
	if m.RequestedBytes == nil {
		text += "no figures"
	} else {
		text += units.Bytes(*m.RequestedBytes) + " asked for"
	}
	if m.Rank != nil {
		text += fmt.Sprintf(" by rank %d", *m.Rank)
	}
	if m.GPU != nil {
		text += fmt.Sprintf(" on GPU %d", *m.GPU)
	}
	if m.DeviceFreeBytes != nil && m.CapacityBytes != nil {
		text += fmt.Sprintf(", %s free of %s", units.Bytes(*m.DeviceFreeBytes), units.Bytes(*m.CapacityBytes))
	}
	if m.AllocatedBytes != nil {
		text += fmt.Sprintf(", %s allocated and %s in PyTorch's cache", units.Bytes(*m.AllocatedBytes),
			bytesOr(m.ReservedUnallocatedBytes))
	}
	if m.UserFile != nil {
		text += "; at " + Printable(shortPlace(*m.UserFile, m.UserLine))
	}
	t.wrap("  out of memory    ", text)
}

// spark draws a curve of bytes in one line.
func (t *text) spark(values []float64) {
	t.curve("in use", values, func(v float64) string { return units.Bytes(int64(v)) })
}

// curve draws values in one line, from the least to the most, if they change.
func (t *text) curve(name string, values []float64, unit func(float64) string) {
	if len(values) < 4 {
		return
	}
	low, high := values[0], values[0]
	for _, v := range values {
		low, high = min(low, v), max(high, v)
	}
	if high-low <= 0.001*high {
		return
	}
	width := min(sparkWidth, len(values))
	var b strings.Builder
	for x := range width {
		top := low
		for _, v := range values[x*len(values)/width : (x+1)*len(values)/width] {
			top = max(top, v)
		}
		b.WriteRune([]rune("▁▂▃▄▅▆▇█")[int((top-low)/(high-low)*7.999)])
	}
	t.line("%19s%s  %s, %s to %s", "", b.String(), name, unit(low), unit(high))
}

// usedCurve are the readings of one GPU.
func usedCurve(g *evidence.GPU) []float64 {
	var out []float64
	for _, s := range readings(g) {
		out = append(out, float64(s.UsedBytes))
	}
	return out
}
