package dataset

import (
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

// hostRow is an allocation of pinned memory.
type hostRow struct {
	t  *timeline.Timeline
	id timeline.AllocationID
}

func (h *hostRow) event(column []uint32) any {
	if at := column[h.id]; at < timeline.Before {
		return int64(at)
	}
	return nil
}

func (h *hostRow) time(column []uint32) any {
	if at := column[h.id]; at < timeline.Before {
		if us := h.t.Device.Events.TimeOf(int(at)); us > 0 {
			return us
		}
	}
	return nil
}

func (h *hostRow) stack() any {
	if id := h.t.Stack(h.id); id != 0 {
		return int64(id)
	}
	return nil
}

// WriteHost writes the rows of Host; there are none where pinned memory wasn't recorded.
func WriteHost(sink Sink, s *snapshot.Snapshot) error {
	r := newRows(Host, sink)
	defer r.release()
	if s.Host != nil {
		t := timeline.New(s, s.Host)
		for id := range t.Len() {
			r.add(&hostRow{t, timeline.AllocationID(id)})
		}
	}
	return r.flush()
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
