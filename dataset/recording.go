package dataset

import (
	"fmt"
	"math"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Recording is what the tables of one device are made of.
type Recording struct {
	Timeline *timeline.Timeline
	View     *frames.View
	Classes  *classify.Classification
	Holders  []classify.Holder // variables of the program, none where nobody recorded them
}

// batchRows is how many rows of a long table are made at once.
const batchRows = 1 << 18

// Write writes a device's rows of one of RecordingTables. Segments and Blocks
// are those right after the event. Stacks are the same for all devices of a
// snapshot, as Host is.
func (r Recording) Write(sink Sink, t *Table, event int) error {
	switch t {
	case Events:
		return r.events(sink)
	case Allocations:
		return r.allocations(sink)
	case Categories:
		return r.categories(sink)
	case Stacks:
		return writeStacks(sink, r.Timeline.Snapshot, r.View)
	case Segments:
		return r.segments(sink, event)
	case Blocks:
		return r.blocks(sink, event)
	case Holders:
		return r.holders(sink)
	case Host:
		return r.host(sink)
	}
	return fmt.Errorf("dataset: %s is no table of a recording", t.Version)
}

// inBatches makes records of n rows in all, column by column.
func inBatches(sink Sink, t *Table, n int, columns func(from, to int) []arrow.Array) error {
	schema := t.Schema()
	for from := 0; from < n; from += batchRows {
		to := min(from+batchRows, n)
		if err := writeRecord(sink, schema, columns(from, to), to-from); err != nil {
			return err
		}
	}
	return nil
}

// writeRecord writes columns and lets go of them.
func writeRecord(sink Sink, schema *arrow.Schema, columns []arrow.Array, rows int) error {
	record := array.NewRecord(schema, columns, int64(rows))
	defer record.Release()
	for _, c := range columns {
		c.Release()
	}
	return sink.Write(record)
}

// poolText is a pool as torch prints it.
func poolText(p snapshot.Pool) string { return fmt.Sprintf("(%d, %d)", p[0], p[1]) }

func (r Recording) events(sink Sink) error {
	t, s := r.Timeline, r.Timeline.Snapshot
	e := &t.Device.Events
	var last snapshot.Action
	for _, a := range e.Action {
		last = max(last, a)
	}
	actions := textsOf(int(last)+1, func(i int) string { return s.ActionName(snapshot.Action(i)) })
	pools := textsOf(len(s.Pools), func(i int) string { return poolText(s.Pools[i]) })
	metadata, internal, contexts := newSaid(s, e.Metadata), newSaid(s, e.Internal), newSaid(s, e.CompileContext)
	var devices scratch[int32]
	var index scratch[uint32]
	var streams scratch[uint64]
	return inBatches(sink, Events, e.Len(), func(from, to int) []arrow.Array {
		n := to - from
		return []arrow.Array{
			arrayOf(int32s, devices.fill(n, func(int) int32 { return int32(t.Device.Ordinal) })),
			arrayOf(uint32s, index.fill(n, func(i int) uint32 { return uint32(from + i) })),
			coded(codes, e.Action[from:to], actions),
			arrayOf(uint64s, e.Address[from:to]),
			arrayOf(int64s, e.Size[from:to]),
			arrayOf(uint64s, streams.fill(n, func(i int) uint64 { return s.Streams[e.StreamOf(from+i)] })),
			arrayWithin(int64s, part(e.TimeUS, from, to), 1, math.MaxInt64),
			arrayWithin(uint32s, part(e.Stack, from, to), 1, math.MaxUint32),
			coded(numbers, part(e.Pool, from, to), pools),
			arrayWithin(uint32s, t.Of[from:to], 0, timeline.NoAllocation),
			metadata.of(part(e.Metadata, from, to)), internal.of(part(e.Internal, from, to)),
			contexts.of(part(e.CompileContext, from, to)),
			arrayWithin(uint32s, part(e.ForwardStack, from, to), 1, math.MaxUint32),
		}
	})
}

func (r Recording) allocations(sink Sink) error {
	t, c, s := r.Timeline, r.Classes, r.Timeline.Snapshot
	categories := textsOf(classify.NumCategories, func(i int) string { return classify.Category(i).String() })
	details := textsOf(classify.NumDetails, func(i int) string { return classify.Detail(i).String() })
	signals := textsOf(classify.NumSignals, func(i int) string { return classify.Signal(i).String() })
	ruleIDs := textsOf(len(classify.Rules())+1, func(i int) string { return classify.RuleID(uint8(i)) })
	phases := textsOf(classify.NumPhases, func(i int) string { return classify.Phase(i).String() })
	names := textsOf(max(len(c.Names), 1), func(i int) string {
		if len(c.Names) == 0 {
			return ""
		}
		return c.Names[i]
	})
	holder, holders := r.heldBy()
	leak := leakOf(c)
	metadata := newSaid(s, t.Device.Events.Metadata)
	var saidAt scratch[snapshot.StringID]
	var forward scratch[snapshot.StackID]
	var devices, leaks scratch[int32]
	var index scratch[uint32]
	var addresses, streams scratch[uint64]
	var requested scratch[int64]
	var stack scratch[snapshot.StackID]
	var confidence scratch[float64]
	return inBatches(sink, Allocations, t.Len(), func(from, to int) []arrow.Array {
		n := to - from
		id := func(i int) timeline.AllocationID { return timeline.AllocationID(from + i) }
		return []arrow.Array{
			arrayOf(int32s, devices.fill(n, func(int) int32 { return int32(t.Device.Ordinal) })),
			arrayOf(uint32s, index.fill(n, func(i int) uint32 { return uint32(from + i) })),
			arrayWithin(uint32s, t.Born[from:to], 0, timeline.Before),
			arrayWithin(uint32s, t.FreeRequested[from:to], 0, timeline.Before),
			arrayWithin(uint32s, t.Freed[from:to], 0, timeline.Before),
			arrayOf(uint64s, addresses.fill(n, func(i int) uint64 { return t.Address(id(i)) })),
			arrayOf(int64s, requested.fill(n, func(i int) int64 { return t.Requested(id(i)) })),
			arrayOf(int64s, t.Allocated[from:to]),
			arrayOf(uint64s, streams.fill(n, func(i int) uint64 { return s.Streams[t.Stream(id(i))] })),
			arrayWithin(uint32s, stack.fill(n, func(i int) snapshot.StackID { return t.Stack(id(i)) }), 1, math.MaxUint32),
			coded(codes, c.Category[from:to], categories),
			codedOrNull(codes, c.Detail[from:to], details),
			codedOrNull(numbers, part(c.Name, from, to), names),
			arrayOf(float, confidence.fill(n, func(i int) float64 { return float64(c.Confidence[from+i]) / 100 })),
			coded(codes, c.Signal[from:to], signals),
			coded(codes, c.Phase[from:to], phases),
			arrayOf(int32s, c.Step[from:to]),
			arrayWithin(int32s, leaks.fill(n, func(i int) int32 { return leak(id(i)) }), 0, math.MaxInt32),
			whether(t.FreeRequested[from:to], timeline.Before),
			codedOrNull(codes, c.Rule[from:to], ruleIDs),
			codedOrNull(numbers, part(holder, from, to), holders),
			metadata.of(saidAt.fill(n, func(i int) snapshot.StringID { return atBirth(t, id(i), t.Device.Events.MetadataOf) })),
			arrayWithin(uint32s, forward.fill(n, func(i int) snapshot.StackID {
				return atBirth(t, id(i), t.Device.Events.ForwardStackOf)
			}), 1, math.MaxUint32),
		}
	})
}

// atBirth is what the alloc event of an allocation has, nothing for one older than the trace.
func atBirth[T any](t *timeline.Timeline, id timeline.AllocationID, of func(int) T) (none T) {
	if born := t.Born[id]; born != timeline.Never {
		return of(int(born))
	}
	return none
}

// said are the distinct texts of a column of events, numbered from 1 as they first come.
type said struct {
	place []uint32 // by snapshot.StringID
	texts arrow.Array
	codes scratch[uint32]
}

func newSaid(s *snapshot.Snapshot, column []snapshot.StringID) *said {
	x := &said{}
	list := []string{""}
	if column != nil {
		x.place = make([]uint32, len(s.Strings))
		for _, id := range column {
			if id != 0 && x.place[id] == 0 {
				x.place[id] = uint32(len(list))
				list = append(list, s.String(id))
			}
		}
	}
	x.texts = textsOf(len(list), func(i int) string { return list[i] })
	return x
}

// of is a column of texts, null where nothing was said.
func (x *said) of(column []snapshot.StringID) arrow.Array {
	return codedOrNull(numbers, x.codes.fill(len(column), func(i int) uint32 {
		if column[i] == 0 {
			return 0
		}
		return x.place[column[i]]
	}), x.texts)
}

// heldBy gives each allocation the number of the variable that holds it, itself or by the autograd graph behind it, 0
// for none, and the paths by these numbers. The numbers are nil without variables.
func (r Recording) heldBy() (numbers []uint32, paths arrow.Array) {
	if len(r.Holders) > 0 {
		numbers = make([]uint32, r.Timeline.Len())
	}
	for i := range r.Holders {
		for _, ids := range [][]timeline.AllocationID{r.Holders[i].Tensors, r.Holders[i].Graph} {
			for _, id := range ids {
				numbers[id] = uint32(i + 1)
			}
		}
	}
	return numbers, textsOf(len(r.Holders)+1, func(i int) string {
		if i == 0 {
			return ""
		}
		return r.Holders[i-1].Path
	})
}

// leakOf tells which leak an allocation is part of, -1 for none.
func leakOf(c *classify.Classification) func(timeline.AllocationID) int32 {
	leaks := make(map[timeline.AllocationID]int32)
	for i := range c.Leaks() {
		for _, id := range c.Leaks()[i].Allocations {
			leaks[id] = int32(i)
		}
	}
	return func(id timeline.AllocationID) int32 {
		if len(leaks) > 0 {
			if leak, ok := leaks[id]; ok {
				return leak
			}
		}
		return -1
	}
}
