package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// How much of one GPU or log a line of text shows.
const (
	processesShown = 4
	sparkWidth     = 40
)

// evidenceFacts sum up what was read besides recordings, a line each.
func (s *sheet) evidenceFacts() {
	ev, doc := s.doc.Evidence, s.doc
	told := slices.ContainsFunc(doc.Findings, func(f report.Finding) bool { return strings.HasPrefix(f.ID, "oom_") })
	if ev == nil || len(ev.GPUs)+len(ev.MemorySummaries)+len(ev.Steps)+len(ev.Traces)+len(ev.Timelines)+len(doc.Clocks) == 0 &&
		(told || len(ev.OOMMessages) == 0) {
		return
	}
	s.add(Part{Heading: "Logs, monitors and traces", Level: 3})
	for i := range ev.GPUs[:min(len(ev.GPUs), s.gpus)] {
		s.gpu(&ev.GPUs[i])
	}
	if rest := more(len(ev.GPUs)-s.gpus, "GPU"); rest != "" {
		s.add(Part{Rest: rest + " in " + ev.GPUs[s.gpus].Monitor()})
	}
	s.first(len(ev.Steps), s.inputs, "log with steps", func(i int) { s.steps(ev.Steps[i]) })
	if set := report.SettingWords(ev.Settings()); !strings.Contains(doc.Verdict.Text, set) { // which has said so
		s.fact("set to", set)
	}
	if !told { // the findings above name every one that matters
		s.first(len(ev.OOMMessages), s.trim.messages, "out-of-memory message", func(i int) {
			s.fact("out of memory", s.message(&ev.OOMMessages[i]))
		})
	}
	s.first(len(ev.MemorySummaries), s.trim.messages, "memory_summary table", func(i int) { s.summary(&ev.MemorySummaries[i]) })
	s.first(len(ev.Traces), s.inputs, "trace", func(i int) { s.trace(&ev.Traces[i]) })
	clocks := s.clocks()
	s.first(len(clocks), s.inputs, "clock", func(i int) { s.fact("clock", clocks[i]) })
	for _, x := range ev.Timelines[:min(len(ev.Timelines), s.inputs)] {
		s.timeline(&x)
	}
}

// first tells of the first of some things, and how many there are besides.
func (s *sheet) first(n, most int, noun string, tell func(i int)) {
	for i := range min(n, most) {
		tell(i)
	}
	s.add(Part{Rest: more(n-most, noun)})
}

// timeline is the peak of a memory timeline that the profiler exported, the largest of its categories first.
func (s *sheet) timeline(x *evidence.Timeline) {
	t := Table{Columns: []Column{{Name: "Category", Width: 20}, figureColumn("At the peak", 12), figureColumn("Share", 7),
		figureColumn("Most at any time", 18)}}
	order := make([]int, len(x.AtPeak))
	for c := range order {
		order[c] = c
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(x.AtPeak[b], x.AtPeak[a]) })
	for _, c := range order {
		if x.PeakByCategory[c] > 0 {
			t.add(Plain(strings.ToLower(evidence.TimelineCategory(c).String())), units.Bytes(x.AtPeak[c]),
				units.Percent(x.AtPeak[c], x.PeakBytes), units.Bytes(x.PeakByCategory[c]))
		}
	}
	s.add(Part{Heading: "The profiler's memory timeline" + when(x.Host, " of the host"), Level: 4, Table: t, Text: []string{
		fmt.Sprintf("%s: %s at its peak, in the profiler's own categories.", name(s.doc, x.Source), units.Bytes(x.PeakBytes))}})
}

// clocks say how the inputs' times lie against each other, as far as that is known.
func (s *sheet) clocks() (out []string) {
	for i := range s.doc.Clocks {
		if c := &s.doc.Clocks[i]; c.Method != nil {
			out = append(out, ClockText(s.doc, c))
		}
	}
	return out
}

func (s *sheet) trace(x *evidence.Trace) {
	peak := "without totals of a GPU"
	if x.PeakAllocatedBytes != nil || x.PeakReservedBytes != nil {
		peak = fmt.Sprintf("peak %s allocated and %s reserved", Known(x.PeakAllocatedBytes), Known(x.PeakReservedBytes))
	}
	s.fact("trace", fmt.Sprintf("%s: %s, %s", name(s.doc, x.Source), units.Plural(x.MemoryEvents, "memory event"), peak))
}

func (s *sheet) summary(x *evidence.MemorySummary) {
	label := "memory_stats"
	if x.Device != nil {
		label = "memory_summary"
	}
	figures := list(nowAndPeak("allocated", x.AllocatedBytes, x.PeakAllocatedBytes), nowAndPeak("reserved", x.ReservedBytes,
		x.PeakReservedBytes))
	s.fact(label, fmt.Sprintf("%s%s; %s:%d", given("device %d: ", x.Device), figures, name(s.doc, x.Source), x.Line))
}

// nowAndPeak is as much of them as is known.
func nowAndPeak(what string, now, peak *int64) string {
	switch {
	case now == nil && peak == nil:
		return ""
	case now == nil:
		return "at most " + units.Bytes(*peak) + " " + what
	case peak == nil:
		return units.Bytes(*now) + " " + what
	}
	return fmt.Sprintf("%s %s (peak %s)", units.Bytes(*now), what, units.Bytes(*peak))
}

// fact adds a fact to those before it.
func (s *sheet) fact(name, text string) {
	if n := len(s.parts); text != "" && n > 0 && len(s.parts[n-1].Facts) > 0 && s.parts[n-1].Rest == "" {
		s.parts[n-1].Facts = append(s.parts[n-1].Facts, Fact{name, text})
		return
	}
	s.add(Part{Facts: []Fact{{name, text}}})
}

// below goes on with the fact before.
func (s *sheet) below(text string) { s.fact("", text) }

func (s *sheet) gpu(g *evidence.GPU) {
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
	times := ""
	if g.FirstTime != nil && g.LastTime != nil && *g.FirstTime != *g.LastTime {
		times = g.FirstTime.String() + " to " + g.LastTime.String()
	}
	s.fact(fmt.Sprintf("%s GPU %d", g.Monitor(), g.GPU), list(text(g.Name), used, units.Plural(g.Samples, "reading"), times))
	s.below(s.spark("in use", usedCurve(g), sizeOf))
	processes, inTurn := LargestFirst(g.Processes), g.InTurn()
	if inTurn != nil {
		processes = inTurn
	}
	for i, p := range processes[:min(len(processes), processesShown)] {
		bytes := when(p.PeakUsedBytes != nil, "  "+Known(p.PeakUsedBytes))
		s.below(fmt.Sprintf("%sprocess %d%s%s", when(inTurn != nil && i > 0, "then "), p.PID, bytes, given("  %s", p.Name)))
	}
	if rest := len(processes) - processesShown; rest > 0 {
		s.below(fmt.Sprintf("and %d more process%s", rest, when(rest > 1, "es")))
	}
}

// LargestFirst orders processes by the memory they held, unknown ones last.
func LargestFirst(list []evidence.Process) []evidence.Process {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b evidence.Process) int {
		return cmp.Compare(evidence.Or(b.PeakUsedBytes, -1), evidence.Or(a.PeakUsedBytes, -1))
	})
	return list
}

func (s *sheet) steps(x *evidence.Steps) {
	out := name(s.doc, x.Source) + ": " + units.Plural(x.Count, "step")
	if x.First != nil && x.Last != nil && *x.First == *x.Last {
		out += fmt.Sprintf(" (number %d)", *x.First)
	} else if x.First != nil && x.Last != nil {
		out += fmt.Sprintf(" (%d to %d)", *x.First, *x.Last)
	}
	if x.MedianStepSeconds != nil {
		out += ", " + units.Duration(*x.MedianStepSeconds) + " each (median)"
	}
	if x.MaxMemoryBytes != nil {
		out += ", at most " + units.MostMemory(x.MaxMemoryBytes, x.MaxReservedBytes, x.Named, x.Printed)
	}
	s.fact("steps", out)
	if n := len(x.Again); n > 0 {
		s.below(fmt.Sprintf("numbers begin again at line %d%s: several runs, or ranks, one after the other", x.Again[0],
			when(n > 1, " and "+units.Times(n-1)+" more")))
	}
	var seconds, memory []float64
	name, bytesOf := StepMemory(x)
	for _, x := range x.Curve {
		if x.Seconds > 0 {
			seconds = append(seconds, x.Seconds)
		}
		if bytes := bytesOf(&x); bytes > 0 {
			memory = append(memory, float64(bytes))
		}
	}
	s.below(s.spark("step time", seconds, func(v float64) string { return fmt.Sprintf("%.3g s", v) }))
	s.below(s.spark(name, memory, sizeOf))
}

// StepMemory is the memory that a log's curve shows, and its name: the
// reserved one where the log has it, as that is what the GPU gave.
func StepMemory(steps *evidence.Steps) (string, func(*evidence.Step) int64) {
	switch {
	case slices.ContainsFunc(steps.Curve, func(s evidence.Step) bool { return s.ReservedBytes > 0 }):
		return "memory reserved", func(s *evidence.Step) int64 { return s.ReservedBytes }
	case steps.Named:
		return "memory allocated", func(s *evidence.Step) int64 { return s.AllocatedBytes }
	}
	return "memory", func(s *evidence.Step) int64 { return s.AllocatedBytes }
}

func (s *sheet) message(m *evidence.OOMMessage) string {
	asked := "no figures"
	if m.RequestedBytes != nil {
		asked = units.Bytes(*m.RequestedBytes) + " asked for"
	}
	out := fmt.Sprintf("%s:%d: %s%s%s", name(s.doc, m.Source), m.Line, asked, given(" by rank %d", m.Rank),
		given(" on GPU %d", m.GPU))
	if m.DeviceFreeBytes != nil && m.CapacityBytes != nil {
		out += fmt.Sprintf(", %s free of %s", units.Bytes(*m.DeviceFreeBytes), units.Bytes(*m.CapacityBytes))
	}
	if m.AllocatedBytes != nil {
		out += fmt.Sprintf(", %s allocated and %s in PyTorch's cache", units.Bytes(*m.AllocatedBytes),
			Known(m.ReservedUnallocatedBytes))
	}
	if m.UserFile != nil {
		out += "; at " + report.ShortPlace(*m.UserFile, m.UserLine)
	}
	return out
}

func sizeOf(v float64) string { return units.Bytes(int64(v)) }

// spark draws values in one line, from the least to the most, if they change and nothing else draws them.
func (s *sheet) spark(name string, values []float64, unit func(float64) string) string {
	if len(values) < 4 || s.page {
		return ""
	}
	low, high := slices.Min(values), slices.Max(values)
	if high-low <= 0.001*high {
		return ""
	}
	width := min(sparkWidth, len(values))
	var b strings.Builder
	for x := range width {
		top := max(low, slices.Max(values[x*len(values)/width:(x+1)*len(values)/width]))
		b.WriteRune([]rune("▁▂▃▄▅▆▇█")[int((top-low)/(high-low)*7.999)])
	}
	return fmt.Sprintf("%s  %s, %s to %s", b.String(), name, unit(low), unit(high))
}

// usedCurve are the readings of one GPU.
func usedCurve(g *evidence.GPU) (out []float64) {
	for _, x := range g.Series.Samples {
		if x.UsedBytes >= 0 {
			out = append(out, float64(x.UsedBytes))
		}
	}
	return out
}
