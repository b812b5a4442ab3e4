package dataset

import (
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

func writeStacks(sink Sink, s *snapshot.Snapshot, v *frames.View) error {
	r := newRows(Stacks, sink)
	defer r.release()
	for id := 1; id < s.NumStacks(); id++ {
		frames := s.Stack(snapshot.StackID(id))
		r.int(int64(id))
		r.list(len(frames), func(x *rows, i int) {
			l := v.Line(frames[i])
			x.text(l.Function)
			x.text(l.File)
			x.int(int64(l.Line))
			x.text(v.Language(frames[i]).String())
		})
		r.end()
	}
	return r.flush()
}

func (r Recording) segments(sink Sink, event int) error {
	x := newRows(Segments, sink)
	defer x.release()
	s := r.Timeline.Snapshot
	layout := r.Timeline.LayoutAt(event)
	for i := range layout.Segments {
		g := &layout.Segments[i]
		var used int64
		for _, b := range g.Blocks {
			if b.Allocation != timeline.NoAllocation {
				used += b.Bytes
			}
		}
		x.int(int64(r.Timeline.Device.Ordinal))
		x.int(int64(i))
		x.address(g.Address)
		x.int(g.Bytes)
		x.int(used)
		x.int(g.Bytes - used)
		x.address(s.Streams[g.Stream])
		x.text(poolText(s.Pools[g.Pool]))
		if g.Small {
			x.text("small")
		} else {
			x.text("large")
		}
		x.bool(g.Expandable)
		x.int(int64(len(g.Blocks)))
		x.end()
	}
	return x.flush()
}

func (r Recording) blocks(sink Sink, event int) error {
	x := newRows(Blocks, sink)
	defer x.release()
	layout := r.Timeline.LayoutAt(event)
	for i := range layout.Segments {
		for _, b := range layout.Segments[i].Blocks {
			x.int(int64(r.Timeline.Device.Ordinal))
			x.int(int64(i))
			x.address(b.Address)
			x.int(b.Bytes)
			r.use(x, b)
			x.end()
		}
	}
	return x.flush()
}

// use writes what a block is used for.
func (r Recording) use(x *rows, b timeline.Block) {
	id := b.Allocation
	if id == timeline.NoAllocation {
		x.null()
		x.text(snapshot.Inactive.String())
		x.null()
		x.null()
		x.null()
		return
	}
	x.int(r.Timeline.Requested(id))
	state := snapshot.ActiveAllocated
	if b.Pending {
		state = snapshot.ActivePendingFree
	}
	x.text(state.String())
	x.int(int64(id))
	if stack := r.Timeline.Stack(id); stack != 0 {
		x.int(int64(stack))
	} else {
		x.null()
	}
	x.text(r.Classes.Category[id].String())
}
