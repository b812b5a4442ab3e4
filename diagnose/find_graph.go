package diagnose

import (
	"fmt"
	"sort"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// An autograd graph that no backward pass uses goes all at once when the last
// tensor of it is dropped. Under no_grad, most of what forward makes is gone
// before its end.
const (
	bulkLeast  = 16 // blocks freed in a row without a request in between
	kindsLeast = 4  // places of the program, or sizes, among them
	bulkShare  = 25 // percent of what the pass made
	// linger is for how many events a tensor of a forward pass is still needed
	// when nothing keeps it for a backward pass: until the operations that read
	// it have run.
	linger = 24
)

const noGradCode = "with torch.no_grad():          # or torch.inference_mode()\n    out = model(batch)\n# model.eval() alone " +
	"doesn't do it"

// dropped are the blocks of graphs that were built and never used.
type dropped struct {
	ids    []timeline.AllocationID
	graphs int   // how often some were dropped
	bytes  int64 // at most at once
	proven bool  // the frees' stacks show autograd letting go of saved tensors
	after  int   // the event after which a graph may be there that no backward pass has come to
}

// graphKind tells the tensors of one place of the program, or without stacks of
// one size; both where that is asked for.
type graphKind struct {
	stack snapshot.StackID
	bytes int64
}

func (e *examination) kindOf(id timeline.AllocationID) graphKind {
	if stack := e.t.Stack(id); stack != 0 {
		return graphKind{stack: stack}
	}
	return graphKind{bytes: e.t.Requested(id)}
}

// missingNoGrad finds forward passes whose graph is kept, and dropped without a
// backward pass: evaluation or generation that was meant to keep nothing.
func (e *examination) missingNoGrad(dev *report.Device, f *facts) []draft {
	x := e.dropped
	if x.graphs == 0 || x.bytes < 1<<20 || f.unseen {
		return nil
	}
	if !f.trains && x.graphs < 2 && !x.proven {
		return nil // the only forward pass of a recording may have been cut off from its backward pass
	}
	d := draft{Finding: report.Finding{ID: "missing_no_grad", Severity: report.Warning, Confidence: 0.8, Evidence: []string{},
		Code: noGradCode}}
	x.ids = append(x.ids, e.stillBuilt(&x)...)
	once := e.mostAtOnce(x.ids)
	d.Title = fmt.Sprintf("Missing no_grad: forward passes keep up to %s for a backward pass that never runs", units.Bytes(once))
	where := "the forward passes that are not trained on"
	bytes := e.byStack(x.ids)
	delete(bytes, 0) // what is older than the recording says nothing against the others
	if line := e.coveringLineBut(bytes, e.trainedThrough()); line.File != "" {
		where = "the call in " + lineText(line)
		d.Evidence = append(d.Evidence, "called in "+lineText(line))
	}
	how := "nothing that was saved for backward is read by one"
	if x.proven {
		how = "autograd lets go of saved tensors outside any backward pass"
		d.Confidence = 0.97
	}
	graphs := "an autograd graph of " + units.Bytes(x.bytes) + " was dropped without a backward pass"
	if x.graphs > 1 {
		graphs = fmt.Sprintf("%s were dropped without a backward pass, the largest of %s", units.Plural(x.graphs,
			"autograd graph"), units.Bytes(x.bytes))
	}
	d.Evidence = append(d.Evidence, graphs+": "+how)
	if once > x.bytes+x.bytes/2 {
		d.Evidence = append(d.Evidence, "a graph stays until the next forward pass is through: something holds its output so "+
			"long")
	}
	if !f.trains {
		d.Evidence = append(d.Evidence, "no backward pass in the whole recording")
	}
	if !f.trains && dev.Stacks == "none" && e.t.Older() > 0 { // caches of passes before the recording may go so, too
		d.Severity, d.Confidence = report.Info, 0.5
	}
	d.Fix = ptr(fmt.Sprintf("Put torch.no_grad() around %s: nothing is kept for backward then", where))
	d.without = "without the graphs,"
	d.spells = e.afterUse(x.ids)
	e.unused = x.ids
	return []draft{d}
}

// trainedThrough are the user's lines under which tensors were made that a backward
// pass used up: without gradients there, nothing would be trained.
func (e *examination) trainedThrough() map[frames.Line]bool {
	spans := e.spans()
	inBackward := func(event int) bool {
		i := sort.Search(len(spans), func(i int) bool { return spans[i].FirstEvent > event }) - 1
		return i >= 0 && spans[i].Phase == classify.Backward && event <= spans[i].LastEvent
	}
	seen, lines := map[snapshot.StackID]bool{}, map[frames.Line]bool{}
	for i, phase := range e.classes.Phase {
		stack, freed := e.t.Stack(timeline.AllocationID(i)), e.t.FreeRequested[i]
		if phase != classify.Forward || seen[stack] || freed == timeline.Never || !inBackward(int(freed)) {
			continue
		}
		seen[stack] = true
		for _, line := range e.view.User(stack) {
			lines[line] = true
		}
	}
	return lines
}

// mostAtOnce is the most that some allocations take at the same time, in bytes.
func (e *examination) mostAtOnce(ids []timeline.AllocationID) (most int64) {
	spells := make([]spell, len(ids))
	for i, id := range ids {
		spells[i] = e.lifeOf(id)
	}
	l := newLowered(spells)
	for _, s := range l.steps {
		most = max(most, l.goneAt(s.event))
	}
	return most
}

// afterUse is what tensors of forward passes take once they were read.
func (e *examination) afterUse(ids []timeline.AllocationID) []spell {
	out := make([]spell, 0, len(ids))
	for _, id := range ids {
		if e.classes.Category[id] == classify.Logits && e.classes.Detail[id] == classify.NoDetail {
			continue // the scores themselves are wanted
		}
		s := e.lifeOf(id)
		if s.from != timeline.NoEvent { // else it was read before the first event
			s.from += linger
		}
		out = append(out, s)
	}
	return out
}

// times says how often.
func times(n int) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return units.Count(n) + " times"
}

// droppedGraphs goes once over the events.
func (e *examination) droppedGraphs(spans []classify.PhaseSpan) (x dropped) {
	letsGo := e.releases()
	var bulk []timeline.AllocationID
	var made []int32 // forward allocations before each one; worked out when first needed
	released := 0
	backward, failed := -1, -1 // event at which the last backward pass began, the last request failed
	layers := e.remadeLayers(spans)
	flush := func() {
		if len(bulk) >= bulkLeast && e.isGraph(bulk, &made) && !layers.one(e, bulk) &&
			(!letsGo.known || released*100 >= bulkShare*len(bulk)) {
			x.graphs++
			var bytes int64
			for _, id := range bulk {
				bytes += e.t.Allocated[id]
			}
			x.bytes = max(x.bytes, bytes)
			x.ids = append(x.ids, bulk...)
			x.proven = letsGo.known
		}
		bulk, released = bulk[:0], 0
	}
	events := &e.t.Device.Events
	for k, span := range spans {
		end := events.Len()
		if k+1 < len(spans) {
			end = spans[k+1].FirstEvent
		}
		if span.Phase == classify.Backward { // what it frees was used
			backward = span.FirstEvent
			for _, action := range events.Action[span.FirstEvent:end] {
				if action == snapshot.Alloc || action == snapshot.OOM {
					flush()
					break
				}
			}
			if n := sort.Search(len(e.t.OOMs), func(i int) bool { return e.t.OOMs[i].Event >= end }); n > 0 {
				failed = e.t.OOMs[n-1].Event
			}
			continue
		}
		for i := span.FirstEvent; i < end; i++ {
			switch events.Action[i] {
			case snapshot.Alloc:
				if len(bulk) > 0 {
					flush()
				}
			case snapshot.OOM:
				flush()
				failed = i
			case snapshot.FreeRequested:
				id := e.t.Of[i]
				if id == timeline.NoAllocation {
					continue
				}
				saved := letsGo.known && letsGo.stacks[events.StackOf(i)]
				if born := e.t.Born[id]; born == timeline.Never {
					if !saved || max(backward, failed) >= 0 {
						continue
					}
				} else if int(born) <= max(backward, failed) || !e.forGraph(id) {
					continue
				}
				bulk = append(bulk, id)
				if saved {
					released++
				}
			}
		}
	}
	flush()
	x.after = max(backward, failed)
	return x
}

// stillBuilt is what a last graph of the same kind holds at the end of the
// recording.
func (e *examination) stillBuilt(x *dropped) (ids []timeline.AllocationID) {
	kinds := map[graphKind]bool{} // where the dropped ones have no stacks, of their sizes
	for _, id := range x.ids {
		kinds[e.kindOf(id)] = true
	}
	for i := e.t.Older(); i < e.t.Len(); i++ {
		id := timeline.AllocationID(i)
		if e.t.FreeRequested[i] == timeline.Never && int(e.t.Born[i]) > x.after && e.forGraph(id) &&
			(kinds[e.kindOf(id)] || kinds[graphKind{bytes: e.t.Requested(id)}]) {
			ids = append(ids, id)
		}
	}
	return ids
}

// forGraph tells whether an allocation may be a tensor that forward saved.
func (e *examination) forGraph(id timeline.AllocationID) bool {
	if e.classes.Phase[id] != classify.Forward || e.t.Allocated[id] <= 512 {
		return false
	}
	switch e.classes.Category[id] {
	case classify.Activations, classify.Logits, classify.AutocastCopies, classify.Temporary, classify.Unknown:
		return true
	}
	return false
}

// isGraph tells a graph from outputs that are merely many: it has tensors of
// several kinds, and they are a good part of what the pass made. What autocast
// cast goes in one bulk under no_grad, too, and so do copies of all weights.
func (e *examination) isGraph(bulk []timeline.AllocationID, made *[]int32) bool {
	kinds := map[graphKind]bool{}
	first, last, casts, copies := bulk[0], bulk[0], 0, 0
	for _, id := range bulk {
		first, last = min(first, id), max(last, id)
		if len(kinds) < kindsLeast {
			kinds[e.kindOf(id)] = true
		}
		if e.classes.Category[id] == classify.AutocastCopies {
			casts++
		}
		if e.t.Stack(id) == 0 && e.weightSizes()[e.t.Requested(id)] {
			copies++
		}
	}
	if len(kinds) < kindsLeast || casts*4 >= len(bulk)*3 || copies*4 >= len(bulk)*3 || classify.HaveNames(e.t, bulk) {
		return false
	}
	if *made == nil {
		*made = make([]int32, e.t.Len()+1)
		for i := range e.t.Len() {
			(*made)[i+1] = (*made)[i]
			if e.forGraph(timeline.AllocationID(i)) {
				(*made)[i+1]++
			}
		}
	}
	return len(bulk)*100 >= bulkShare*int((*made)[last+1]-(*made)[first])
}

// remade is what backward passes make again under checkpointing.
type remade struct {
	sizes map[int64]bool // requested bytes, of what passes use up as well
	each  int            // how many blocks a pass keeps
}

// remadeLayers looks at all backward passes; it finds nothing without checkpointing.
func (e *examination) remadeLayers(spans []classify.PhaseSpan) remade {
	r := remade{sizes: map[int64]bool{}}
	passes := 0
	for _, d := range e.classes.Detail {
		if d == classify.Recomputed {
			r.each++
		}
	}
	if r.each == 0 {
		return r
	}
	for i, phase := range e.classes.Phase {
		if phase == classify.Backward && e.classes.Category[i] != classify.Gradients {
			r.sizes[e.t.Requested(timeline.AllocationID(i))] = true
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
func (r *remade) one(e *examination, bulk []timeline.AllocationID) bool {
	n := 0
	for _, id := range bulk {
		if e.t.Stack(id) == 0 && r.sizes[e.t.Requested(id)] {
			n++
		}
	}
	return n*4 >= len(bulk)*3 && len(bulk)*2 < r.each
}

// weightSizes are the requested bytes of weights, by category.
func (e *examination) weightSizes() map[int64]bool {
	if e.sizes == nil {
		e.sizes = map[int64]bool{}
		for i, c := range e.classes.Category {
			if c == classify.Weights {
				e.sizes[e.t.Requested(timeline.AllocationID(i))] = true
			}
		}
	}
	return e.sizes
}

// letting says which stacks of frees show autograd dropping what it saved,
// outside its engine; known is false where frees have no C++ stacks.
type letting struct {
	stacks []bool
	known  bool
}

// releases looks at each frame once.
func (e *examination) releases() (x letting) {
	s := e.t.Snapshot
	marks := make([]frames.Marks, len(s.Frames))
	for i := range s.Frames {
		if e.view.Language(snapshot.FrameID(i)) == frames.CPP {
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
	events := &e.t.Device.Events
	for i, action := range events.Action {
		if action == snapshot.FreeRequested && nativeStack[events.StackOf(i)] {
			x.known = true
			break
		}
	}
	return x
}
