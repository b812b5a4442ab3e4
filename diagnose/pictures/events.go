package pictures

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// events adds what bands don't tell of the trace: the stacks of frees, events of
// segments, and the few that aren't what the page takes them for.
func (p *picture) events(whole bool) {
	e, b := &p.T.Device.Events, &p.out.Bands
	p.out.Completions = !slices.Contains(e.Action, snapshot.FreeRequested) && slices.Contains(e.Action, snapshot.FreeCompleted)
	b.FreeStack = make([]uint32, len(b.Freed))
	for i, freed := range b.Freed {
		if int64(freed) < int64(e.Len()) && isFree(e.Action[freed]) {
			b.FreeStack[i] = p.stacks.bare(e.StackOf(int(freed)))
		}
	}
	told := p.told()
	last := snapshot.ActionOther
	for i, a := range e.Action {
		if a == told[i] || !whole && (a == snapshot.Alloc || isFree(a)) {
			continue
		}
		last = max(last, a)
		x := report.Event{Event: i, Action: int(a), Address: e.Address[i], Bytes: max(0, e.Size[i]), Stream: e.StreamOf(i),
			Pool: e.PoolOf(i), Stack: p.stacks.bare(e.StackOf(i)), Band: -1}
		if id := p.T.Of[i]; whole && id != timeline.NoAllocation {
			x.Band = int(id)
		}
		p.out.Others = append(p.out.Others, x)
	}
	for a := range last + 1 {
		p.out.Actions = append(p.out.Actions, p.T.Snapshot.ActionName(a))
	}
	p.places()
}

// places adds the final segments, and the names of streams and pools.
func (p *picture) places() {
	for _, stream := range p.T.Snapshot.Streams {
		p.out.Streams = append(p.out.Streams, strconv.FormatUint(stream, 10))
	}
	for i, pool := range p.T.Snapshot.Pools {
		name := ""
		if i > 0 {
			name = fmt.Sprintf("(%d, %d)", pool[0], pool[1])
		}
		p.out.Pools = append(p.out.Pools, name)
	}
	for _, g := range p.T.FinalSegments() {
		p.out.Segments = append(p.out.Segments, report.Segment{Address: g.Address, Bytes: g.Bytes, Stream: g.Stream, Pool: g.Pool,
			Small: g.Small, Expandable: g.Expandable})
	}
}

func isFree(a snapshot.Action) bool {
	return a == snapshot.FreeRequested || a == snapshot.FreeCompleted
}

// told is what the page takes each event for, by the bands alone.
func (p *picture) told() []snapshot.Action {
	b := &p.out.Bands
	told := make([]snapshot.Action, p.out.Events)
	for i := range told {
		told[i] = untold
	}
	put := func(event uint32, a snapshot.Action) {
		if int64(event) < int64(len(told)) {
			told[event] = a
		}
	}
	for i, event := range b.Completed {
		put(event, snapshot.FreeCompleted)
		if event != b.Freed[i] || !p.out.Completions {
			put(b.Freed[i], snapshot.FreeRequested)
		}
	}
	for i, event := range b.Born {
		if i >= b.Older {
			put(event, snapshot.Alloc)
		}
	}
	return told
}

// untold is no action.
const untold = snapshot.Action(255)
