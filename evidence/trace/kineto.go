// Package trace reads what PyTorch's profiler exports: Chrome traces with
// their [memory] events, steps and annotations, and the files of
// export_memory_timeline.
//
//	result, err := trace.Read(file)
//	if err != nil {
//		return err
//	}
//	fmt.Println(result.Trace.MemoryEvents, result.Trace.Steps)
//
// Files are read as a stream: a trace of many gigabytes takes no more memory
// than its largest event. The input is plain JSON; decompressing is the
// caller's.
package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/cut"
)

// unknown stands for a number of bytes that the trace does not carry.
const unknown int64 = -1

// ErrNotTrace is wrapped by errors about JSON that is neither a trace nor a
// memory timeline.
var ErrNotTrace = errors.New("not a profiler trace")

// Result holds the one of the two that the file was.
type Result struct {
	Trace    *evidence.Trace
	Timeline *evidence.Timeline
}

const (
	maxSpans   = 100_000
	maxDevices = 4096
	maxName    = 512
	maxFailed  = 1024
)

// Read reads one file. With an error about where the file breaks, what was
// read up to there comes, too.
func Read(r io.Reader) (Result, error) {
	s := newScanner(r)
	p := parser{scanner: s, trace: &evidence.Trace{Rank: -1, Accelerators: []int{}}}
	c, ok := s.next()
	switch {
	case !ok:
		return Result{}, s.fail("an empty file", ErrNotTrace)
	case c == '{':
		err := p.object()
		if !p.found && !(p.profiler && errors.Is(err, io.ErrUnexpectedEOF)) {
			if err == nil {
				err = s.fail("JSON without traceEvents", ErrNotTrace)
			}
			return Result{}, err
		}
		return Result{Trace: p.trace}, err
	case c == '[':
		return p.list()
	}
	return Result{}, s.fail(fmt.Sprintf("%q where JSON should begin", c), ErrNotTrace)
}

type parser struct {
	*scanner
	trace *evidence.Trace
	found bool // traceEvents
	// profiler says that a key before traceEvents was seen that only the profiler writes.
	profiler bool
	devices  map[deviceKey]*evidence.TraceDevice
	props    map[int]evidence.TraceDevice
	phases   int // events with a "ph", which every trace event has

	// the list of numbers read last
	kept         []int64
	countNumbers int
}

type deviceKey struct {
	kind evidence.DeviceType
	id   int
}

// object reads the top level: {"deviceProperties": …, "traceEvents": […]}.
func (p *parser) object() error {
	defer p.finish() // of what was read, wherever it ends
	p.skip()
	return p.each('}', "the trace's outermost object", func(byte) error {
		key, err := p.key()
		if err != nil {
			return err
		}
		return p.topValue(key)
	})
}

func (p *parser) topValue(key string) error {
	c, ok := p.next()
	if !ok {
		return p.cut("the value of " + key)
	}
	switch {
	case key == "traceEvents" && c == '[':
		p.found = true
		p.skip()
		return p.events()
	case key == "deviceProperties" || key == "distributedInfo" || key == "baseTimeNanoseconds":
		p.profiler = true
		value, err := p.value()
		if err == nil {
			p.property(key, value)
		}
		return err
	}
	return p.skipValue()
}

func (p *parser) property(key string, value []byte) {
	switch key {
	case "baseTimeNanoseconds":
		p.trace.BaseNanoseconds, _ = parseInt(value)
	case "distributedInfo":
		var info struct{ Rank *int }
		if _ = json.Unmarshal(value, &info); info.Rank != nil {
			p.trace.Rank = *info.Rank
		}
	case "deviceProperties":
		p.props = map[int]evidence.TraceDevice{}
		var list []struct {
			ID             *int
			Name           string
			TotalGlobalMem *int64
		}
		_ = json.Unmarshal(value, &list) // what is of another type stays unknown
		for _, d := range list[:min(len(list), maxDevices)] {
			id := evidence.Or(d.ID, -1)
			p.props[id] = evidence.TraceDevice{ID: id, Name: cut.Bytes(d.Name, maxName),
				CapacityBytes: evidence.Or(d.TotalGlobalMem, unknown)}
		}
	}
}

// events reads an array of events one by one, after its opening bracket.
func (p *parser) events() error {
	return p.each(']', "traceEvents", func(c byte) error {
		if c != '{' {
			return p.skipValue()
		}
		event, err := p.value()
		if err != nil {
			return err
		}
		p.trace.Events++
		p.event(event)
		return nil
	})
}

var (
	memoryName  = []byte(`"[memory]"`)
	failedName  = []byte(`"[OutOfMemory]"`)
	annotations = []byte(`user_annotation"`)
	stepName    = []byte(`ProfilerStep#`)
	optimizer   = []byte(`"Optimizer.`)
)

// event looks at the few kinds that matter; nearly all are operators and
// kernels, told by two searches.
func (p *parser) event(text []byte) {
	if p.phases < 16 && bytes.Contains(text, []byte(`"ph"`)) {
		p.phases++
	}
	switch {
	case bytes.Contains(text, memoryName):
		p.memoryEvent(text, memoryName)
	case bytes.Contains(text, failedName):
		p.memoryEvent(text, failedName)
	case bytes.Contains(text, annotations), bytes.Contains(text, stepName), bytes.Contains(text, optimizer):
		p.span(text)
	}
}

// memoryEvent reads an event of the allocator, "[OutOfMemory]" for a request that
// failed (torch/csrc/autograd/profiler_kineto.cpp): it has the same arguments,
// the size being the one asked for.
func (p *parser) memoryEvent(text, name []byte) {
	e := evidence.MemoryEvent{TotalAllocated: unknown, TotalReserved: unknown, Device: -1}
	named := false
	eachField(text, func(key, value []byte) {
		switch string(key) {
		case "name":
			named = string(value) == string(name)
		case "ts":
			e.Micros, _ = parseFloat(value)
		case "args":
			eachField(value, func(key, v []byte) { argument(&e, key, v) })
		}
	})
	if !named {
		return
	}
	if string(name) == string(failedName) {
		if len(p.trace.Failed) < maxFailed {
			p.trace.Failed = append(p.trace.Failed, e)
		}
		return
	}
	p.trace.MemoryEvents++
	p.count(&e)
}

func argument(e *evidence.MemoryEvent, key, value []byte) {
	n, ok := parseInt(value)
	if !ok {
		return
	}
	switch string(key) {
	case "Bytes":
		e.Bytes = n
	case "Device Type":
		e.Type = evidence.DeviceType(n)
	case "Device Id":
		e.Device = int(n)
	case "Total Allocated":
		e.TotalAllocated = n
	case "Total Reserved":
		e.TotalReserved = n
	}
}

func (p *parser) count(e *evidence.MemoryEvent) {
	key := deviceKey{e.Type, e.Device}
	d := p.devices[key]
	if d == nil {
		if len(p.devices) >= maxDevices {
			return
		}
		if p.devices == nil {
			p.devices = map[deviceKey]*evidence.TraceDevice{}
		}
		d = &evidence.TraceDevice{Type: e.Type, ID: e.Device, CapacityBytes: unknown, PeakAllocatedBytes: unknown,
			PeakReservedBytes: unknown, FirstMicros: e.Micros}
		p.devices[key] = d
	}
	d.Events++
	d.LastMicros = e.Micros
	if e.TotalAllocated > d.PeakAllocatedBytes {
		d.PeakAllocatedBytes, d.PeakMicros = e.TotalAllocated, e.Micros
	}
	if e.Type.IsAccelerator() {
		d.Levels.Add(e)
	}
	d.PeakReservedBytes = max(d.PeakReservedBytes, e.TotalReserved)
}

func (p *parser) span(text []byte) {
	s := evidence.Span{Step: -1}
	phase := byte(0)
	eachField(text, func(key, value []byte) {
		switch string(key) {
		case "ph":
			if len(value) == 3 {
				phase = value[1]
			}
		case "cat":
			s.Category = unquote(value)
		case "name":
			s.Name = unquote(value)
		case "ts":
			s.Micros, _ = parseFloat(value)
		case "dur":
			s.Duration, _ = parseFloat(value)
		}
	})
	if phase != 'X' || s.Name == "" || s.Category == "gpu_user_annotation" {
		return
	}
	list := &p.trace.Annotations
	if rest, ok := bytes.CutPrefix([]byte(s.Name), stepName); ok {
		if n, ok := parseInt(rest); ok {
			s.Step, list = n, &p.trace.Steps
		}
	}
	if len(*list) < maxSpans {
		*list = append(*list, s)
	}
}
