// Package evidence holds what a run leaves behind besides snapshots: what
// monitors saw of the GPUs, what logs and their out-of-memory messages say, what
// profiler traces hold. It imports nothing; package read fills it.
//
//	kinds, found, err := read.Evidence(file, "train.log", 0)
//	if errors.Is(err, read.ErrNothingKnown) {
//		return err // some text, but none that says anything
//	}
//	fmt.Println(kinds, len(found.OOMMessages))
//
// A nil pointer is an unknown figure. What carries no name for JSON is for those
// who judge, not for reports.
package evidence

import (
	"slices"
	"sort"
)

// The kinds of input, besides the forms of monitors, as reports name them.
const (
	KindTrainingLog   = "training_log"
	KindOOMMessage    = "oom_message"
	KindMemorySummary = "memory_summary"
	KindTrace         = "profiler_trace"
	KindTimeline      = "memory_timeline"
)

// Evidence is what one or several inputs hold besides snapshots. What has a name
// for JSON is never a nil slice.
type Evidence struct {
	GPUs            []GPU           `json:"gpus"`
	OOMMessages     []OOMMessage    `json:"oom_messages"`
	MemorySummaries []MemorySummary `json:"memory_summaries"`
	Steps           []*Steps        `json:"steps"` // the log with the most comes first
	Traces          []Trace         `json:"traces"`
	Logs            []Log           `json:"-"`
	Timelines       []Timeline      `json:"timelines"`
	Parameters      []Parameters    `json:"parameters"`
}

// New is evidence of nothing.
func New() *Evidence {
	return &Evidence{GPUs: []GPU{}, OOMMessages: []OOMMessage{}, MemorySummaries: []MemorySummary{},
		Steps: []*Steps{}, Traces: []Trace{}, Timelines: []Timeline{},
		Parameters: []Parameters{}}
}

// Add appends another input's evidence.
func (e *Evidence) Add(o *Evidence) {
	e.GPUs = joinTracked(append(e.GPUs, o.GPUs...))
	e.OOMMessages = append(e.OOMMessages, o.OOMMessages...)
	e.MemorySummaries = append(e.MemorySummaries, o.MemorySummaries...)
	e.Steps = append(e.Steps, o.Steps...)
	e.Traces = append(e.Traces, o.Traces...)
	e.Logs = append(e.Logs, o.Logs...)
	e.Timelines = append(e.Timelines, o.Timelines...)
	e.Parameters = append(e.Parameters, o.Parameters...)
	sort.SliceStable(e.Steps, func(i, j int) bool { return e.Steps[i].Count > e.Steps[j].Count })
}

// Log is the log of a source, nil where that is none.
func (e *Evidence) Log(source int) *Log {
	return first(ofSource(e.Logs, source, func(l *Log) int { return l.Source }))
}

// Sources are the inputs that logs, GPUs and traces are of, in order.
func (e *Evidence) Sources() []int {
	var all []int
	for i := range e.Logs {
		all = append(all, e.Logs[i].Source)
	}
	for i := range e.GPUs {
		all = append(all, e.GPUs[i].Source)
	}
	for i := range e.Traces {
		all = append(all, e.Traces[i].Source)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Trace is the profiler trace of a source, nil where that is none.
func (e *Evidence) Trace(source int) *Trace {
	return first(ofSource(e.Traces, source, func(t *Trace) int { return t.Source }))
}

func first[T any](list []T) *T {
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}

// MessagesOf are the out-of-memory messages of a source. They may be changed.
func (e *Evidence) MessagesOf(source int) []OOMMessage {
	return ofSource(e.OOMMessages, source, func(m *OOMMessage) int { return m.Source })
}

// GPUsOf are the GPUs of a source.
func (e *Evidence) GPUsOf(source int) []GPU {
	return ofSource(e.GPUs, source, func(g *GPU) int { return g.Source })
}

// ofSource is the part of a list that is of a source: each input's stands together.
func ofSource[T any](list []T, source int, of func(*T) int) []T {
	from := 0
	for from < len(list) && of(&list[from]) != source {
		from++
	}
	to := from
	for to < len(list) && of(&list[to]) == source {
		to++
	}
	return list[from:to:to]
}

// Or is a figure, or another value where it isn't known.
func Or[T any](figure *T, other T) T {
	if figure == nil {
		return other
	}
	return *figure
}

// Known is a figure that may be unknown: negative.
func Known[T int | int64 | float64](figure T) *T {
	if figure < 0 {
		return nil
	}
	return &figure
}

// Text is a text that may be unknown: empty.
func Text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
