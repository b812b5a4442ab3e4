package evidence

import (
	"sort"

	"github.com/vramscope/vramscope/evidence/monitor"
	"github.com/vramscope/vramscope/evidence/runlog"
	"github.com/vramscope/vramscope/evidence/trace"
)

// Add appends another input's evidence; logs with more steps come first.
func (e *Evidence) Add(o *Evidence) {
	e.GPUs = append(e.GPUs, o.GPUs...)
	e.OOMMessages = append(e.OOMMessages, o.OOMMessages...)
	e.MemorySummaries = append(e.MemorySummaries, o.MemorySummaries...)
	e.Steps = append(e.Steps, o.Steps...)
	e.Traces = append(e.Traces, o.Traces...)
	e.Details = append(e.Details, o.Details...)
	sort.SliceStable(e.Steps, func(i, j int) bool { return e.Steps[i].Count > e.Steps[j].Count })
}

func (e *Evidence) addGPUs(r *monitor.Report, source int) {
	for i := range r.GPUs {
		g := &r.GPUs[i]
		out := GPU{GPU: g.Index, Name: text(g.Name), Source: source, Samples: g.Samples,
			TotalBytes: number(g.TotalBytes), PeakUsedBytes: number(g.PeakUsedBytes),
			FirstTime: text(g.First.String()), LastTime: text(g.Last.String()), Processes: []Process{}, Tool: r.Tool()}
		for _, p := range g.Processes {
			out.Processes = append(out.Processes, Process{PID: p.PID, Name: text(p.Name), PeakUsedBytes: number(p.PeakUsedBytes)})
		}
		e.GPUs = append(e.GPUs, out)
	}
}

func (e *Evidence) addLog(r *runlog.Report, source int) {
	for i := range r.OOMs {
		m := &r.OOMs[i]
		out := OOMMessage{Source: source, Line: m.Line, RequestedBytes: number(m.RequestedBytes),
			CapacityBytes: number(m.CapacityBytes), DeviceFreeBytes: number(m.DeviceFreeBytes),
			ProcessBytes: number(m.ProcessBytes), AllocatedBytes: number(m.AllocatedBytes),
			ReservedUnallocatedBytes: number(m.ReservedUnallocatedBytes), UserFile: text(m.UserFile),
			UserFunction: text(m.UserFunction), Phase: text(m.Phase)}
		if m.GPU >= 0 {
			out.GPU = &m.GPU
		}
		if m.Rank >= 0 {
			out.Rank = &m.Rank
		}
		if m.UserFile != "" && m.UserLine > 0 {
			out.UserLine = &m.UserLine
		}
		e.OOMMessages = append(e.OOMMessages, out)
	}
	for i := range r.Summaries {
		s := &r.Summaries[i]
		out := MemorySummary{Source: source, Line: s.Line,
			AllocatedBytes: number(s.AllocatedBytes), PeakAllocatedBytes: number(s.PeakAllocatedBytes),
			ReservedBytes: number(s.ReservedBytes), PeakReservedBytes: number(s.PeakReservedBytes), OOMs: number(s.OOMs)}
		if s.Device != runlog.NotSaid {
			out.Device = &s.Device
		}
		e.MemorySummaries = append(e.MemorySummaries, out)
	}
	if s := &r.Steps; s.Count > 0 {
		out := Steps{Source: source, Count: s.Count, First: number(s.First), Last: number(s.Last),
			MaxMemoryBytes:   number(s.MaxMemoryBytes()),
			MaxReservedBytes: number(s.MaxReservedBytes), Named: s.Named}
		if s.MedianSeconds >= 0 {
			out.MedianStepSeconds = &s.MedianSeconds
		}
		e.Steps = append(e.Steps, out)
	}
}

func (e *Evidence) addTrace(t *trace.Trace, source int) {
	allocated, reserved := t.Peaks()
	e.Traces = append(e.Traces, Trace{Source: source, MemoryEvents: t.MemoryEvents, Devices: t.Accelerators(),
		PeakAllocatedBytes: number(allocated), PeakReservedBytes: number(reserved)})
}

// number turns the parsers' -1 into null.
func number(v int64) *int64 {
	if v < 0 {
		return nil
	}
	return &v
}

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// kindsOf lists what a text holds, the main kind first: a log that reports
// training is a training log whatever else it holds.
func kindsOf(smi *monitor.Report, log *runlog.Report) []string {
	var kinds []string
	if log.IsTrainingLog() {
		kinds = append(kinds, KindTrainingLog)
	}
	if len(log.OOMs) > 0 {
		kinds = append(kinds, KindOOMMessage)
	}
	if len(log.Summaries) > 0 {
		kinds = append(kinds, KindMemorySummary)
	}
	forms := smi.Forms()
	// Of several forms the one with by far the most rows is the main one:
	// a monitor that prints one table first and then CSV for a week.
	sort.SliceStable(forms, func(i, j int) bool {
		return smi.Rows[forms[i]] > manyTimes*smi.Rows[forms[j]]
	})
	for _, f := range forms {
		kinds = append(kinds, f.String())
	}
	return kinds
}

const manyTimes = 20
