package replay

import (
	"math"
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/replay/change"
	"github.com/vramscope/vramscope/timeline"
)

// Apply makes the program that changes would have made of this one, and says
// what each takes for granted. The classification must be of the same timeline.
func (p *Program) Apply(list []change.Change, classes *classify.Classification) (*Program, []change.Change, error) {
	edits, done, err := change.Make(list, classes, p.Settings.Round)
	if err != nil {
		return nil, nil, err
	}
	return p.edited(edits), done, nil
}

// edited is the program with edited requests, in order.
func (p *Program) edited(edits *change.Edits) *Program {
	p.Verify() // once, for all copies
	q := *p
	q.changed = len(p.layout.Segments) > 0
	q.slots += edits.Extras
	q.ops = pages.Make[op](len(p.ops) + len(edits.List))[:0]
	slices.SortStableFunc(edits.List, func(a, b change.Edit) int { return a.Event - b.Event })
	w := editing{program: p, edits: edits, rest: edits.List, ops: q.ops, main: p.busiest()}
	w.find()
	q.older = nil
	older := p.olderIDs()
	for i, o := range p.older {
		w.learn(older[i], o.slot, o.pair)
		if o.bytes = edits.Bytes[older[i]]; o.bytes > 0 {
			q.older = append(q.older, o)
		}
	}
	for _, o := range p.ops {
		w.insert(int(o.event))
		w.take(o)
	}
	w.insert(math.MaxInt)
	q.ops = w.ops
	return &q
}

// editing puts together the requests of an edited program.
type editing struct {
	program *Program
	edits   *change.Edits
	rest    []change.Edit // that are yet to come
	ops     []op
	main    uint16 // the stream and pool that most requests go to

	of    []uint32 // by allocation: index into known; 0: it isn't edited
	known []place  // where a replay keeps allocations that are edited
}

type place struct {
	slot uint32
	pair uint16
}

// find finds the allocations that are freed or made otherwise.
func (w *editing) find() {
	w.of, w.known = make([]uint32, len(w.edits.Bytes)), make([]place, 1)
	for i := range w.edits.List {
		if id := w.edits.List[i].ID; id != timeline.NoAllocation && w.of[id] == 0 {
			w.of[id] = uint32(len(w.known))
			w.known = append(w.known, place{})
		}
	}
}

func (w *editing) learn(id timeline.AllocationID, slot uint32, pair uint16) {
	if i := w.of[id]; i > 0 {
		w.known[i] = place{slot, pair}
	}
}

// insert adds the edits of events before another.
func (w *editing) insert(before int) {
	for ; len(w.rest) > 0 && w.rest[0].Event < before; w.rest = w.rest[1:] {
		e := &w.rest[0]
		o := op{kind: opAlloc, bytes: e.Bytes, event: uint32(max(e.Event, 0)), slot: uint32(w.program.slots + e.Extra),
			pair: w.main}
		if e.ID != timeline.NoAllocation {
			if w.edits.Bytes[e.ID] == 0 {
				continue
			}
			known := w.known[w.of[e.ID]]
			o.slot, o.pair, o.bytes = known.slot, known.pair, w.edits.Bytes[e.ID]
		}
		if o.bytes = max(o.bytes, 1); e.Free {
			o.kind, o.bytes = opFree, 0
		}
		w.ops = append(w.ops, o)
	}
}

// take adds a recorded op, as large as it has become.
func (w *editing) take(o op) {
	switch o.kind {
	case opAlloc:
		id := w.program.Timeline.Of[o.event]
		if o.bytes = w.edits.Bytes[id]; o.bytes == 0 {
			return
		}
		w.learn(id, o.slot, o.pair)
	case opFailed:
		if bytes, ok := w.edits.Sizes[o.bytes]; ok {
			o.bytes = bytes
		}
		o.bytes = max(o.bytes, 1) // the recording ends here, needed or not
	}
	w.ops = append(w.ops, o)
}

// busiest is the stream and pool that most requests go to.
func (p *Program) busiest() uint16 {
	count := make([]int, len(p.pairs)+1)
	for i := range p.ops {
		if p.ops[i].kind == opAlloc {
			count[p.ops[i].pair]++
		}
	}
	return uint16(slices.Index(count, slices.Max(count)))
}

// olderIDs are the allocations of the first state, in the order of p.older.
func (p *Program) olderIDs() []timeline.AllocationID {
	ids := make([]timeline.AllocationID, 0, len(p.older))
	for _, s := range p.layout.Segments {
		for _, b := range s.Blocks {
			if b.Allocation != timeline.NoAllocation {
				ids = append(ids, b.Allocation)
			}
		}
	}
	return ids
}
