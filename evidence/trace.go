package evidence

import (
	"encoding/json"
	"strings"
)

// Trace sums up a profiler trace.
type Trace struct {
	Source             int    `json:"source"`
	MemoryEvents       int    `json:"memory_events"` // of all devices, CPU included
	Accelerators       []int  `json:"devices"`       // with events, without the host
	PeakAllocatedBytes *int64 `json:"peak_allocated_bytes"`
	PeakReservedBytes  *int64 `json:"peak_reserved_bytes"`

	Events      int           `json:"-"` // of any kind
	Devices     []TraceDevice `json:"-"`
	Failed      []MemoryEvent `json:"-"` // requests that found no room, bounded
	Steps       []Span        `json:"-"` // ProfilerStep#N, bounded
	Annotations []Span        `json:"-"` // the program's own and the optimizer's, bounded
	Rank        int           `json:"-"` // -1: not said
	// BaseNanoseconds is what the times of newer traces count from.
	BaseNanoseconds int64 `json:"-"`
}

// TraceDevice is one memory as the trace's events saw it. Bytes are negative
// where the trace doesn't carry them.
type TraceDevice struct {
	Type               DeviceType
	ID                 int
	Name               string // from deviceProperties
	CapacityBytes      int64
	Events             int
	PeakAllocatedBytes int64
	PeakReservedBytes  int64
	PeakMicros         float64 // of the first event with the allocated peak
	FirstMicros        float64
	LastMicros         float64
	Levels             Levels
}

// DeviceType is PyTorch's c10::DeviceType (c10/core/DeviceType.h).
type DeviceType int

// CPU is the host, whose memory is not of interest.
const CPU DeviceType = 0

// IsAccelerator tells the memories of interest from the host's.
func (t DeviceType) IsAccelerator() bool {
	switch t {
	case CPU, 2, 5, 14: // MKLDNN and IDEEP run on the host, meta has no memory
		return false
	}
	return true
}

// MemoryEvent is one [memory] event: an allocation, or a free when negative.
// Bytes are rounded block sizes.
type MemoryEvent struct {
	Micros                        float64
	Bytes                         int64
	Type                          DeviceType
	Device                        int
	TotalAllocated, TotalReserved int64 // after the event, negative where the trace doesn't carry them
}

// Span is a step or an annotation.
type Span struct {
	Name     string
	Category string
	Micros   float64 // start
	Duration float64 // in microseconds
	Step     int64   // of ProfilerStep#N, else -1
}

// TimelineCategory is what a memory timeline attributes memory to, in the order of
// _CATEGORY_TO_COLORS of torch/profiler/_memory_profiler.py.
type TimelineCategory uint8

// The categories of the profiler.
const (
	Parameter TimelineCategory = iota
	OptimizerState
	Input
	Temporary
	Activation
	Gradient
	AutogradDetail
	Uncategorised
	TimelineCategories
)

// String is the category's name in PyTorch.
func (c TimelineCategory) String() string {
	names := [TimelineCategories]string{"PARAMETER", "OPTIMIZER_STATE", "INPUT", "TEMPORARY", "ACTIVATION", "GRADIENT",
		"AUTOGRAD_DETAIL", "UNKNOWN"}
	if c >= TimelineCategories {
		return "UNKNOWN"
	}
	return names[c]
}

// Timeline sums up a file of export_memory_timeline.
type Timeline struct {
	Source         int           `json:"source"`
	Rows           int           `json:"rows"`
	PeakBytes      int64         `json:"peak_bytes"` // of all categories together
	AtPeak         TimelineBytes `json:"at_peak"`    // what they held then
	PeakByCategory TimelineBytes `json:"peak_by_category"`
	Host           bool          `json:"host"` // tensors were made of sizes that no GPU's allocator gives
}

// TimelineBytes are bytes by category, in JSON by its name.
type TimelineBytes [TimelineCategories]int64

// MarshalJSON writes all categories.
func (b TimelineBytes) MarshalJSON() ([]byte, error) {
	named := make(map[string]int64, len(b))
	for c, bytes := range b {
		named[strings.ToLower(TimelineCategory(c).String())] = bytes
	}
	return json.Marshal(named)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (b *TimelineBytes) UnmarshalJSON(text []byte) error {
	var named map[string]int64
	err := json.Unmarshal(text, &named)
	for c := range b {
		b[c] = named[strings.ToLower(TimelineCategory(c).String())]
	}
	return err
}
