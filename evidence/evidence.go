// Package evidence recognises what a run leaves behind besides snapshots
// (nvidia-smi output, logs, profiler traces) by content, never by name, and
// turns it into one value.
//
//	kinds, found, err := evidence.Read(file, "train.log", 0)
//	if errors.Is(err, evidence.ErrNothingKnown) {
//		return err // some text, but none that says anything
//	}
//	fmt.Println(kinds, len(found.OOMMessages))
package evidence

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/vramscope/vramscope/evidence/monitor"
	"github.com/vramscope/vramscope/evidence/runlog"
	"github.com/vramscope/vramscope/evidence/trace"
)

// ErrNothingKnown is wrapped by errors about text without a single line of a
// known form.
var ErrNothingKnown = errors.New("nothing known in it")

// ErrUnnamed is wrapped by such errors, too, where a little is known: rows as
// nvidia-smi prints them without header or units, of which it can't be told what they are.
var ErrUnnamed = fmt.Errorf("rows without header or units: %w", ErrNothingKnown)

// ErrOtherJSON is wrapped by errors about JSON that is neither a trace nor a
// timeline nor a notebook: a configuration or a labels file, perhaps.
var ErrOtherJSON = errors.New("JSON of another kind")

// The kinds this package tells apart, as reports name them.
const (
	KindTrainingLog   = "training_log"
	KindOOMMessage    = "oom_message"
	KindMemorySummary = "memory_summary"
	KindTrace         = "profiler_trace"
	KindTimeline      = "memory_timeline"
)

// Evidence is what one or several inputs hold besides snapshots. Fields are
// never nil slices; a nil pointer is an unknown number.
type Evidence struct {
	GPUs            []GPU           `json:"gpus"`
	OOMMessages     []OOMMessage    `json:"oom_messages"`
	MemorySummaries []MemorySummary `json:"memory_summaries"`
	Steps           []Steps         `json:"steps"`
	Traces          []Trace         `json:"traces"`

	// What the parsers found in full, for those who need curves and spans.
	Details []Detail `json:"-"`
}

// Detail is the whole of what one input held; the parts it has none of are nil.
type Detail struct {
	Source   int
	NVSMI    *monitor.Report
	Log      *runlog.Report
	Trace    *trace.Trace
	Timeline *trace.Timeline
}

// GPU is one device over the time that one input covers.
type GPU struct {
	GPU           int       `json:"gpu"`
	Name          *string   `json:"name"`
	Source        int       `json:"source"`
	Samples       int       `json:"samples"`
	TotalBytes    *int64    `json:"total_bytes"`
	PeakUsedBytes *int64    `json:"peak_used_bytes"`
	FirstTime     *string   `json:"first_time"`
	LastTime      *string   `json:"last_time"`
	Processes     []Process `json:"processes"`
	Tool          string    `json:"-"` // that printed the readings, "" for nvidia-smi
}

// Monitor is what printed the readings, as people call it.
func (g *GPU) Monitor() string { return cmp.Or(g.Tool, "nvidia-smi") }

// Process is one process on a GPU.
type Process struct {
	PID           int     `json:"pid"`
	Name          *string `json:"name"`
	PeakUsedBytes *int64  `json:"peak_used_bytes"`
}

// OOMMessage is one "out of memory".
type OOMMessage struct {
	Source                   int     `json:"source"`
	Line                     int     `json:"line"`
	GPU                      *int    `json:"gpu"`
	Rank                     *int    `json:"rank"` // as the launcher marks its lines, or as the log is called
	RequestedBytes           *int64  `json:"requested_bytes"`
	CapacityBytes            *int64  `json:"capacity_bytes"`
	DeviceFreeBytes          *int64  `json:"device_free_bytes"`
	ProcessBytes             *int64  `json:"process_bytes"`
	AllocatedBytes           *int64  `json:"allocated_bytes"`
	ReservedUnallocatedBytes *int64  `json:"reserved_unallocated_bytes"`
	UserFile                 *string `json:"user_file"`
	UserLine                 *int    `json:"user_line"`
	UserFunction             *string `json:"user_function"`
	Phase                    *string `json:"phase"`   // as the traceback's frames tell
	Verdict                  *string `json:"verdict"` // as of requests that failed in a recording; null until judged
	Fix                      *string `json:"fix"`     // what to change against it
}

// MemorySummary is one torch.cuda.memory_summary() table.
type MemorySummary struct {
	Source             int    `json:"source"`
	Line               int    `json:"line"`
	Device             *int   `json:"device"` // null: memory_stats() names none
	AllocatedBytes     *int64 `json:"allocated_bytes"`
	PeakAllocatedBytes *int64 `json:"peak_allocated_bytes"`
	ReservedBytes      *int64 `json:"reserved_bytes"`
	PeakReservedBytes  *int64 `json:"peak_reserved_bytes"`
	OOMs               *int64 `json:"ooms"`
}

// Steps sums up the steps that one log reports.
type Steps struct {
	Source            int      `json:"source"`
	Count             int      `json:"count"`
	First             *int64   `json:"first"`
	Last              *int64   `json:"last"`
	MedianStepSeconds *float64 `json:"median_step_seconds"`
	MaxMemoryBytes    *int64   `json:"max_memory_bytes"`
	MaxReservedBytes  *int64   `json:"max_reserved_bytes"`
	Named             bool     `json:"-"` // MaxMemoryBytes is called allocated by the log
}

// Trace sums up one profiler trace.
type Trace struct {
	Source             int    `json:"source"`
	MemoryEvents       int    `json:"memory_events"`
	Devices            []int  `json:"devices"`
	PeakAllocatedBytes *int64 `json:"peak_allocated_bytes"`
	PeakReservedBytes  *int64 `json:"peak_reserved_bytes"`
}

// New is evidence of nothing.
func New() *Evidence {
	return &Evidence{GPUs: []GPU{}, OOMMessages: []OOMMessage{}, MemorySummaries: []MemorySummary{},
		Steps: []Steps{}, Traces: []Trace{}}
}
