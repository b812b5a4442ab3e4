package facts

import (
	"slices"
	"sort"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// An autograd graph that no backward pass uses goes all at once when the last
// tensor of it is dropped. Under no_grad, most of what forward makes is gone
// before its end.
const (
	BulkLeast  = 16 // blocks freed in a row without a request in between
	kindsLeast = 4  // places of the program, or sizes, among them
	bulkShare  = 25 // percent of what the pass made
)

// Graphs are the blocks of graphs that were built and never used.
type Graphs struct {
	IDs    []timeline.AllocationID
	Count  int   // how often some were dropped
	Bytes  int64 // of the largest
	Proven bool  // the frees' stacks show autograd letting go of saved tensors
	after  int   // the event after which a graph may be there that no backward pass has come to
}

// Dropped are graphs that were let go without a backward pass.
var Dropped = Named("dropped graphs", func(p *Pass) *Graphs { return p.droppedGraphs(Phases.Of(p).Spans) })

// Unused are the graphs that no backward pass uses, as far as that is sure: dropped
// ones and what a last one of the same kind holds; nil for none.
var Unused = Named("unused graphs", func(p *Pass) *Graphs {
	x, work := *Dropped.Of(p), Phases.Of(p)
	if x.Count == 0 || x.Bytes < 1<<20 || work.Unseen {
		return nil
	}
	if !work.Trains && x.Count < 2 && !x.Proven {
		return nil // the only forward pass of a recording may have been cut off from its backward pass
	}
	x.IDs = append(slices.Clip(x.IDs), p.stillBuilt(&x)...)
	return &x
})

// Allocations are those of the graphs, none where there are no graphs.
func (x *Graphs) Allocations() []timeline.AllocationID {
	if x == nil {
		return nil
	}
	return x.IDs
}

// dropping goes once over the events.
type dropping struct {
	*Pass
	Graphs
	letsGo           letting
	layers           remade
	bulk             []timeline.AllocationID // freed in a row without a request in between
	released         int                     // of them, seen to be let go by autograd
	backward, failed int                     // event at which the last backward pass began, the last request failed
}

func (p *Pass) droppedGraphs(spans []classify.PhaseSpan) *Graphs {
	d := dropping{Pass: p, letsGo: p.releases(), layers: p.remadeLayers(spans), backward: -1, failed: -1}
	events := &p.T.Device.Events
	for k, span := range spans {
		end := events.Len()
		if k+1 < len(spans) {
			end = spans[k+1].FirstEvent
		}
		if span.Phase == classify.Backward {
			d.trained(span.FirstEvent, end)
			continue
		}
		for i := span.FirstEvent; i < end; i++ {
			switch events.Action[i] {
			case snapshot.Alloc:
				if len(d.bulk) > 0 {
					d.flush()
				}
			case snapshot.OOM:
				d.flush()
				d.failed = i
			case snapshot.FreeRequested:
				d.free(i)
			}
		}
	}
	d.flush()
	d.after = max(d.backward, d.failed)
	return &d.Graphs
}

// trained is a backward pass: what it frees was used.
func (d *dropping) trained(first, end int) {
	d.backward = first
	for _, action := range d.T.Device.Events.Action[first:end] {
		if action == snapshot.Alloc || action == snapshot.OOM {
			d.flush()
			break
		}
	}
	if n := sort.Search(len(d.T.OOMs), func(i int) bool { return d.T.OOMs[i].Event >= end }); n > 0 {
		d.failed = d.T.OOMs[n-1].Event
	}
}

// free is one of a tensor that a graph may have held.
func (d *dropping) free(event int) {
	id := d.T.Of[event]
	if id == timeline.NoAllocation {
		return
	}
	saved := d.letsGo.known && d.letsGo.stacks[d.T.Device.Events.StackOf(event)]
	if born, since := d.T.Born[id], max(d.backward, d.failed); born == timeline.Never {
		if !saved || since >= 0 {
			return
		}
	} else if int(born) <= since || !d.forGraph(id) {
		return
	}
	d.bulk = append(d.bulk, id)
	if saved {
		d.released++
	}
}

// flush judges what was freed in a row.
func (d *dropping) flush() {
	if len(d.bulk) >= BulkLeast && d.IsGraph(d.bulk) && !d.layers.one(d.Pass, d.bulk) &&
		(!d.letsGo.known || d.released*100 >= bulkShare*len(d.bulk)) {
		d.Count++
		var bytes int64
		for _, id := range d.bulk {
			bytes += d.T.Allocated[id]
		}
		d.Bytes = max(d.Bytes, bytes)
		d.IDs = append(d.IDs, d.bulk...)
		d.Proven = d.letsGo.known
	}
	d.bulk, d.released = d.bulk[:0], 0
}

// GraphKind tells the tensors of one place of the program, or without stacks of
// one size; both where that is asked for.
type GraphKind struct {
	Stack snapshot.StackID
	Bytes int64
}

func (p *Pass) KindOf(id timeline.AllocationID) GraphKind {
	if stack := p.T.Stack(id); stack != 0 {
		return GraphKind{Stack: stack}
	}
	return GraphKind{Bytes: p.T.Requested(id)}
}

// ManyKinds reports whether tensors are of as many kinds as a graph has at least.
func (p *Pass) ManyKinds(ids []timeline.AllocationID) bool {
	kinds := map[GraphKind]bool{}
	for i := 0; i < len(ids) && len(kinds) < kindsLeast; i++ {
		kinds[p.KindOf(ids[i])] = true
	}
	return len(kinds) >= kindsLeast
}

// stillBuilt is what a last graph of the same kind holds at the end of the
// recording.
func (p *Pass) stillBuilt(x *Graphs) (ids []timeline.AllocationID) {
	kinds := map[GraphKind]bool{} // where the dropped ones have no stacks, of their sizes
	for _, id := range x.IDs {
		kinds[p.KindOf(id)] = true
	}
	for i := p.T.Older(); i < p.T.Len(); i++ {
		id := timeline.AllocationID(i)
		if p.T.FreeRequested[i] == timeline.Never && int(p.T.Born[i]) > x.after && p.forGraph(id) &&
			(kinds[p.KindOf(id)] || kinds[GraphKind{Bytes: p.T.Requested(id)}]) {
			ids = append(ids, id)
		}
	}
	return ids
}

// forGraph reports whether an allocation may be a tensor that forward saved.
func (p *Pass) forGraph(id timeline.AllocationID) bool {
	if p.Classes.Phase[id] != classify.Forward || p.T.Allocated[id] <= 512 {
		return false
	}
	switch p.Classes.Category[id] {
	case classify.Activations, classify.Logits, classify.AutocastCopies, classify.Temporary, classify.Unknown:
		return true
	}
	return false
}

// IsGraph tells a graph from outputs that are merely many: it has tensors of
// several kinds, and they are a good part of what the pass made. What autocast
// cast goes in one bulk under no_grad, too, and so do copies of all weights.
func (p *Pass) IsGraph(bulk []timeline.AllocationID) bool {
	var sizes map[int64]bool // of weights
	kinds := map[GraphKind]bool{}
	first, last, casts, copies := bulk[0], bulk[0], 0, 0
	for _, id := range bulk {
		first, last = min(first, id), max(last, id)
		if len(kinds) < kindsLeast {
			kinds[p.KindOf(id)] = true
		}
		if p.Classes.Category[id] == classify.AutocastCopies {
			casts++
		}
		if p.T.Stack(id) != 0 {
			continue
		}
		if sizes == nil {
			sizes = weightSizes.Of(p)
		}
		if sizes[p.T.Requested(id)] {
			copies++
		}
	}
	if len(kinds) < kindsLeast || casts*4 >= len(bulk)*3 || copies*4 >= len(bulk)*3 || classify.HaveNames(p.T, bulk) {
		return false
	}
	made := forwardMade.Of(p)
	return len(bulk)*100 >= bulkShare*int(made[last+1]-made[first])
}

// forwardMade counts, before each allocation, those that forward may have saved.
var forwardMade = inner(func(p *Pass) []int32 {
	made := make([]int32, p.T.Len()+1)
	for i := range p.T.Len() {
		made[i+1] = made[i]
		if p.forGraph(timeline.AllocationID(i)) {
			made[i+1]++
		}
	}
	return made
})

// remade is what backward passes make again under checkpointing.
type remade struct {
	sizes map[int64]bool // requested bytes, of what passes use up as well
	each  int            // how many blocks a pass keeps
}

// remadeLayers looks at all backward passes; it finds nothing without checkpointing.
func (p *Pass) remadeLayers(spans []classify.PhaseSpan) remade {
	r := remade{sizes: map[int64]bool{}}
	passes := 0
	for _, d := range p.Classes.Detail {
		if d == classify.Recomputed {
			r.each++
		}
	}
	if r.each == 0 {
		return r
	}
	for i, phase := range p.Classes.Phase {
		if phase == classify.Backward && p.Classes.Category[i] != classify.Gradients {
			r.sizes[p.T.Requested(timeline.AllocationID(i))] = true
		}
	}
	for _, span := range spans {
		if span.Phase == classify.Backward {
			passes++
		}
	}
	r.each /= max(passes, 1)
	return r
}

// one tells, without stacks, whether blocks are what the variables of a checkpointed
// layer held in a forward pass: their sizes are made again, and there are far fewer
// than all layers have.
func (r *remade) one(p *Pass, bulk []timeline.AllocationID) bool {
	n := 0
	for _, id := range bulk {
		if p.T.Stack(id) == 0 && r.sizes[p.T.Requested(id)] {
			n++
		}
	}
	return n*4 >= len(bulk)*3 && len(bulk)*2 < r.each
}

// weightSizes are the requested bytes of weights, by category.
var weightSizes = inner(func(p *Pass) map[int64]bool {
	sizes := map[int64]bool{}
	for id := range p.Each(classify.Weights) {
		sizes[p.T.Requested(id)] = true
	}
	return sizes
})

// letting says which stacks of frees show autograd dropping what it saved,
// outside its engine; known is false where frees have no C++ stacks.
type letting struct {
	stacks []bool
	known  bool
}

// releases looks at each frame once.
func (p *Pass) releases() (x letting) {
	s := p.T.Snapshot
	marks := make([]frames.Marks, len(s.Frames))
	for i := range s.Frames {
		if p.View.Language(snapshot.FrameID(i)) == frames.CPP {
			marks[i], _ = frames.OfNative(s.String(s.Frames[i].Function))
		}
	}
	x.stacks = make([]bool, max(1, s.NumStacks()))
	nativeStack := make([]bool, len(x.stacks))
	for id := 1; id < s.NumStacks(); id++ {
		var all frames.Marks
		for _, f := range s.Stack(snapshot.StackID(id)) {
			all |= marks[f]
		}
		x.stacks[id] = all&(frames.Release|frames.NodeGone) != 0 && all&frames.Engine == 0
		nativeStack[id] = all&frames.Native != 0
	}
	events := &p.T.Device.Events
	for i, action := range events.Action {
		if action == snapshot.FreeRequested && nativeStack[events.StackOf(i)] {
			x.known = true
			break
		}
	}
	return x
}

// UnusedGraph reports whether what is kept are graphs of passes that aren't trained
// on.
func (p *Pass) UnusedGraph(l *classify.Leak) bool {
	if p.HeldAlone(l.Allocations) {
		return false // under no_grad, or detached
	}
	if l.Untrained {
		return l.Kind == classify.RetainedGraph
	}
	if Phases.Of(p).Trains {
		return false
	}
	return l.Kind == classify.RetainedGraph || l.Kind == classify.StaleOutputs && len(l.Allocations) >= BulkLeast &&
		p.IsGraph(l.Allocations)
}
