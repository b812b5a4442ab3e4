package dataset

import (
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// stackRow is a stack.
type stackRow struct {
	id     int
	frames []snapshot.FrameID
	view   *frames.View
}

// line is a frame's members.
func (s *stackRow) line(i int) []any {
	l := s.view.Line(s.frames[i])
	members := []any{l.Function, l.File, int64(l.Line), s.view.Language(s.frames[i]).String()}
	fx := s.view.FX(s.frames[i])
	for _, text := range []string{fx.Op, fx.Name, fx.Target, fx.Info, fx.Trace} {
		if text == "" {
			members = append(members, nil)
		} else {
			members = append(members, text)
		}
	}
	return members
}

func writeStacks(sink Sink, s *snapshot.Snapshot, v *frames.View) error {
	r := newRows(Stacks, sink)
	defer r.release()
	for id := 1; id < s.NumStacks(); id++ {
		r.add(&stackRow{id, s.Stack(snapshot.StackID(id)), v})
	}
	return r.flush()
}

// segmentRow is a segment at a moment.
type segmentRow struct {
	owner
	*timeline.Segment
	index      int
	used       int64
	stream     uint64
	pool, kind string
}

func (r Recording) segments(sink Sink, event int) error {
	x := newRows(Segments, sink)
	defer x.release()
	s, layout := r.Timeline.Snapshot, r.Timeline.LayoutAt(event)
	for i := range layout.Segments {
		g := &layout.Segments[i]
		row := &segmentRow{owner: owner{device: &r.Timeline.Device.Ordinal}, Segment: g, index: i,
			stream: s.Streams[g.Stream], pool: poolText(s.Pools[g.Pool]), kind: "large"}
		if g.Small {
			row.kind = "small"
		}
		for _, b := range g.Blocks {
			if b.Allocation != timeline.NoAllocation {
				row.used += b.Bytes
			}
		}
		x.add(row)
	}
	return x.flush()
}

// blockRow is a block at a moment; what only one in use has is nil else.
type blockRow struct {
	owner
	timeline.Block
	segment                     int
	state                       string
	requested                   *int64
	allocation, stack, category any
}

func (r Recording) blocks(sink Sink, event int) error {
	x := newRows(Blocks, sink)
	defer x.release()
	layout := r.Timeline.LayoutAt(event)
	for i := range layout.Segments {
		for _, b := range layout.Segments[i].Blocks {
			row := &blockRow{owner: owner{device: &r.Timeline.Device.Ordinal}, Block: b, segment: i,
				state: snapshot.Inactive.String()}
			if b.Allocation != timeline.NoAllocation {
				r.use(row, b)
			}
			x.add(row)
		}
	}
	return x.flush()
}

// use tells what a block is used for.
func (r Recording) use(row *blockRow, b timeline.Block) {
	id, requested, state := b.Allocation, r.Timeline.Requested(b.Allocation), snapshot.ActiveAllocated
	if b.Pending {
		state = snapshot.ActivePendingFree
	}
	row.requested, row.state, row.allocation, row.category = &requested, state.String(), int(id), r.Classes.Category[id].String()
	if stack := r.Timeline.Stack(id); stack != 0 {
		row.stack = int(stack)
	}
}

// holderRow is a variable, with what it holds.
type holderRow struct {
	owner
	*classify.Holder
	bytes, graph, end int64
}

func (r Recording) holders(sink Sink) error {
	x := newRows(Holders, sink)
	defer x.release()
	t := r.Timeline
	for i := range r.Holders {
		row := &holderRow{owner: owner{device: &t.Device.Ordinal}, Holder: &r.Holders[i]}
		sum := func(ids []timeline.AllocationID) (bytes int64) {
			for _, id := range ids {
				bytes += t.Allocated[id]
				if t.FreeRequested[id] == timeline.Never {
					row.end += t.Allocated[id]
				}
			}
			return bytes
		}
		row.bytes, row.graph = sum(row.Tensors), sum(row.Graph)
		x.add(row)
	}
	return x.flush()
}

// hostRow is an allocation of pinned memory; what isn't known of it is nil.
type hostRow struct {
	id                       int
	born, freed, time, stack any
	address                  uint64
	requested, allocated     int64
}

func (r Recording) host(sink Sink) error {
	x := newRows(Host, sink)
	defer x.release()
	pinned := r.Timeline.Snapshot.Host
	if pinned == nil {
		return x.flush()
	}
	t := timeline.New(r.Timeline.Snapshot, pinned)
	for id := range timeline.AllocationID(t.Len()) {
		row := &hostRow{id: int(id), address: t.Address(id), requested: t.Requested(id), allocated: t.Allocated[id]}
		if born := t.Born[id]; born < timeline.Before {
			row.born = int(born)
			if at := part(pinned.Events.TimeUS, int(born), int(born)+1)[0]; at > 0 {
				row.time = at
			}
		}
		if freed := t.FreeRequested[id]; freed < timeline.Before {
			row.freed = int(freed)
		}
		if stack := t.Stack(id); stack != 0 {
			row.stack = int(stack)
		}
		x.add(row)
	}
	return x.flush()
}
