package dataset

import (
	"fmt"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/stacks"
	"github.com/vramscope/vramscope/timeline"
)

// The tables of one recording. Sizes are bytes, times microseconds since the
// Unix epoch, events the index into their device's trace, addresses and streams
// as the recorder wrote them. An empty or null value is one that isn't known.
var (
	// Events is one row for each trace entry.
	Events = Table{"events", []string{"device", "event", "action", "address", "bytes", "stream", "time_us", "stack", "pool", "allocation"}}
	// Allocations is one row for each allocation, those older than the trace first.
	Allocations = Table{"allocations", []string{"device", "allocation", "alloc_event", "free_event", "free_completed_event", "address",
		"requested_bytes", "allocated_bytes", "stream", "stack", "category", "detail", "name", "confidence", "signal", "phase", "step", "leak"}}
	// Stacks is one row for each distinct stack, with its frames, innermost first.
	Stacks = Table{"stacks", []string{"stack", "frames"}}
	// Segments is one row for each segment at some moment.
	Segments = Table{"segments", []string{"device", "segment", "address", "bytes", "used_bytes", "free_bytes", "stream", "pool", "type", "expandable", "blocks"}}
	// Blocks is one row for each block, in use or free, at some moment.
	Blocks = Table{"blocks", []string{"device", "segment", "address", "bytes", "requested_bytes", "state", "allocation", "stack", "category"}}
)

// Recording is what the tables of one device are made of.
type Recording struct {
	Timeline *timeline.Timeline
	View     *stacks.View
	Classes  *classify.Classification // nil: category and what follows stay empty
}

func (x *Writer) event(e uint32) {
	if e == timeline.Never || e == timeline.Before {
		x.Null()
	} else {
		x.Int(int64(e))
	}
}

func (x *Writer) stack(id snapshot.StackID) {
	if id == 0 {
		x.Null()
	} else {
		x.Int(int64(id))
	}
}

// poolText is a pool as torch prints it.
func poolText(p snapshot.Pool) string { return fmt.Sprintf("(%d, %d)", p[0], p[1]) }

// WriteEvents writes the rows of Events.
func WriteEvents(x *Writer, r Recording) {
	t := r.Timeline
	e := &t.Device.Events
	pools := make([]string, len(t.Snapshot.Pools))
	for i, p := range t.Snapshot.Pools {
		pools[i] = poolText(p)
	}
	for i, action := range e.Action {
		x.Int(int64(t.Device.Ordinal))
		x.Int(int64(i))
		x.Text(t.Snapshot.ActionName(action))
		x.Uint(e.Address[i])
		x.Int(e.Size[i])
		x.Uint(t.Snapshot.Streams[e.StreamOf(i)])
		if time := e.TimeOf(i); time != 0 {
			x.Int(time)
		} else {
			x.Null()
		}
		x.stack(e.StackOf(i))
		x.Text(pools[e.PoolOf(i)])
		if id := t.Of[i]; id != timeline.NoAllocation {
			x.Int(int64(id))
		} else {
			x.Null()
		}
	}
}

// WriteAllocations writes the rows of Allocations.
func WriteAllocations(x *Writer, r Recording) {
	t, c := r.Timeline, r.Classes
	leakOf := map[timeline.AllocationID]int{}
	if c != nil {
		for i, l := range c.Leaks {
			for _, id := range l.Allocations {
				leakOf[id] = i
			}
		}
	}
	for i := range t.Born {
		id := timeline.AllocationID(i)
		x.Int(int64(t.Device.Ordinal))
		x.Int(int64(i))
		x.event(t.Born[i])
		x.event(t.FreeRequested[i])
		x.event(t.Freed[i])
		x.Uint(t.Address(id))
		x.Int(t.Requested(id))
		x.Int(t.Allocated[i])
		x.Uint(t.Snapshot.Streams[t.Stream(id)])
		x.stack(t.Stack(id))
		if c == nil {
			for range 8 {
				x.Null()
			}
			continue
		}
		x.Text(c.Category[i].String())
		x.TextOrNull(c.Detail[i].String())
		if c.Name != nil {
			x.TextOrNull(c.Names[c.Name[i]])
		} else {
			x.Null()
		}
		x.Float(float64(c.Confidence[i]) / 100)
		x.Text(c.Signal[i].String())
		x.Text(c.Phase[i].String())
		x.Int(int64(c.Step[i]))
		if leak, ok := leakOf[id]; ok {
			x.Int(int64(leak))
		} else {
			x.Null()
		}
	}
}

// frame is one line of a stack.
type frame struct {
	Function string `json:"function"`
	File     string `json:"file"`
	Line     int    `json:"line"`
	Language string `json:"language"`
}

// WriteStacks writes the rows of Stacks, the same for all devices of a snapshot.
func WriteStacks(x *Writer, s *snapshot.Snapshot, v *stacks.View) {
	for id := 1; id < s.NumStacks(); id++ {
		x.Int(int64(id))
		frames := []frame{}
		for _, f := range s.Stack(snapshot.StackID(id)) {
			l := v.Line(f)
			frames = append(frames, frame{l.Function, l.File, l.Line, v.Language(f).String()})
		}
		x.Object(frames)
	}
}

// WriteSegments writes the rows of Segments right after an event.
func WriteSegments(x *Writer, r Recording, event int) {
	layout := r.Timeline.LayoutAt(event)
	for i, s := range layout.Segments {
		var used int64
		for _, b := range s.Blocks {
			if b.Allocation != timeline.NoAllocation {
				used += b.Bytes
			}
		}
		x.Int(int64(r.Timeline.Device.Ordinal))
		x.Int(int64(i))
		x.Uint(s.Address)
		x.Int(s.Bytes)
		x.Int(used)
		x.Int(s.Bytes - used)
		x.Uint(r.Timeline.Snapshot.Streams[s.Stream])
		x.Text(poolText(r.Timeline.Snapshot.Pools[s.Pool]))
		x.Text(map[bool]string{true: "small", false: "large"}[s.Small])
		x.Bool(s.Expandable)
		x.Int(int64(len(s.Blocks)))
	}
}

// WriteBlocks writes the rows of Blocks right after an event.
func WriteBlocks(x *Writer, r Recording, event int) {
	t := r.Timeline
	layout := t.LayoutAt(event)
	for i, s := range layout.Segments {
		for _, b := range s.Blocks {
			x.Int(int64(t.Device.Ordinal))
			x.Int(int64(i))
			x.Uint(b.Address)
			x.Int(b.Bytes)
			if b.Allocation == timeline.NoAllocation {
				x.Null()
				x.Text(snapshot.Inactive.String())
				for range 3 {
					x.Null()
				}
				continue
			}
			x.Int(t.Requested(b.Allocation))
			state := snapshot.ActiveAllocated
			if b.Pending {
				state = snapshot.ActivePendingFree
			}
			x.Text(state.String())
			x.Int(int64(b.Allocation))
			x.stack(t.Stack(b.Allocation))
			if r.Classes != nil {
				x.Text(r.Classes.Category[b.Allocation].String())
			} else {
				x.Null()
			}
		}
	}
}
