package diagnose

import (
	"math"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/cause"
	"github.com/vramscope/vramscope/diagnose/checks"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/diagnose/oom"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// defect is a mistake in the program, with the memory that it keeps.
type defect struct {
	report.Cause
	ids []timeline.AllocationID
}

// judge says what filled the GPU when requests failed, of the first ones and of the last, or when most was allocated.
func (e *examination) judge(dev *report.Device) {
	found := e.defects(dev)
	if len(dev.OOMs) == 0 {
		s := cause.Scene{InUse: dev.Peaks.Allocated.Bytes}
		dev.Causes, _ = e.weigh(&s, e.T.Peaks.Allocated.Event, found)
		return
	}
	for i := range dev.OOMs {
		o := &dev.OOMs[i]
		o.Causes = []report.Cause{}
		if last := i == len(dev.OOMs)-1; last || i < facts.MaxExplained {
			e.judgeFailure(dev, o, found)
			dev.Causes = o.Causes
		}
	}
	last := &e.T.OOMs[dev.OOMs[len(dev.OOMs)-1].Index]
	m, sites := e.moment(last.Event, last.Levels)
	if dev.AtFailure = &m; !e.sameAsPeak(last.Event) {
		dev.SitesAtFailure = sites
	}
}

// sameAsPeak reports whether nothing came or went between the peak and an event.
func (e *examination) sameAsPeak(event int) bool {
	from := e.T.Peaks.Allocated.Event + 1
	return from <= event && !slices.ContainsFunc(e.T.Device.Events.Action[from:event], func(a snapshot.Action) bool {
		return a == snapshot.Alloc || a == snapshot.FreeRequested || a == snapshot.FreeCompleted
	})
}

func (e *examination) judgeFailure(dev *report.Device, o *report.OOM, found []defect) {
	r := &e.T.OOMs[o.Index]
	lacked := e.Shortage(r)
	s := cause.Scene{Asked: o.RequestedBytes, InUse: o.AllocatedBytes, Lacked: lacked.Missing,
		Left: max(0, lacked.Usable-lacked.Need(r)), Around: e.around(dev, o, r), Length: e.square(o)}
	s.Whole = e.wholeGPU(dev, r, lacked.Usable)
	if held := checks.HeldByAttempt(e.Pass, r); len(held) > 0 {
		kept := report.Cause{Cause: report.KeptException, FixID: new(report.KeptException)}
		found = append([]defect{{kept, held}}, found...)
	}
	if h := checks.EarlierPasses(e.Pass, r); h != nil {
		kept := report.Cause{Cause: report.RetainedGraph, Holder: &h.Path, FixID: new("missing_no_grad"),
			At: e.lineThatMade(h.Graph)}
		found = append(slices.Clip(found), defect{kept, h.Graph})
	}
	if x := facts.Projection.Of(e.Pass); x != nil && s.Lacked > 0 && o.Index == len(e.T.OOMs)-1 && o.Phase != nil &&
		*o.Phase == classify.Optimizer.String() {
		s.ToCome = x.Missed(classify.OptimizerState.String())
	}
	o.Causes, o.InUse = e.weigh(&s, o.Event, found)
	if c := &o.Causes[0]; c.Cause == report.Temporaries {
		c.FixID = new(checks.ForTemporaries(e.Pass, r))
	}
}

// weigh judges a moment by what defects held then and what the rest is for, and gives what was in use by category.
func (e *examination) weigh(s *cause.Scene, event int, found []defect) ([]report.Cause, map[string]int64) {
	told := map[timeline.AllocationID]bool{}
	for _, d := range found {
		var others int64
		for _, id := range d.ids {
			switch {
			case !e.T.AliveAt(id, event):
			case told[id]:
				others += e.T.Allocated[id]
			default:
				d.Bytes += e.T.Allocated[id]
			}
		}
		if d.Bytes <= 2*others { // the same seen in another way
			continue
		}
		s.Defects = append(s.Defects, d.Cause)
		for _, id := range d.ids {
			told[id] = true
		}
	}
	var all map[string]int64
	s.Design, all = e.design(event, told)
	return s.Judge(), all
}

// wholeGPU is what no request can exceed: the GPU's size, else twice what PyTorch could have had; 0: not known.
func (e *examination) wholeGPU(dev *report.Device, r *timeline.OOM, usable int64) int64 {
	if m := e.messageOf(r, dev); m != nil && evidence.Or(m.CapacityBytes, 0) > 0 {
		return max(*m.CapacityBytes, usable)
	}
	if g, _ := e.gpuOf(dev); g != nil && g.TotalBytes != nil {
		return max(*g.TotalBytes, usable)
	}
	const least = 1 << 30 // that is left to a program on any GPU
	if usable < least {
		return 0
	}
	return max(e.Given, 2*usable)
}

// madeAgain are models, or copies, that were there already when they were made once more.
func (e *examination) madeAgain(dev *report.Device, again *facts.Again) defect {
	d := defect{report.Cause{Cause: report.LeakCause, FixID: new(classify.GrowingList)}, again.IDs}
	if again.Model {
		d.Cause = report.Cause{Cause: report.SecondModel, FixID: new("weights_twice"), Count: len(again.Made)}
	}
	d.At = e.lineThatMade(again.Made[0].IDs)
	for i := range e.Classes.Leaks() {
		if x := &dev.Leaks[i]; len(x.Holders) > 0 && e.Mostly(e.Classes.Leaks()[i].Allocations, again.IDs) {
			d.Holder, d.StoredAt = commonPath(x.Holders), x.Stored()
		}
	}
	if path := e.Keeper(again); d.Holder == nil && path != "" {
		d.Holder = &path
	}
	return d
}

// defects are the mistakes that keep memory, those of one variable together.
func (e *examination) defects(dev *report.Device) (out []defect) {
	again := facts.MadeAgain.Of(e.Pass)
	if again != nil {
		out = append(out, e.madeAgain(dev, again))
	}
	if ids := checks.LoadedFile.Of(e.Pass); len(ids) > 0 {
		out = append(out, defect{report.Cause{Cause: report.SecondModel, At: e.lineThatMade(ids), FixID: new("loaded_file")},
			ids})
	}
	for i := range e.Classes.Leaks() {
		l, x := &e.Classes.Leaks()[i], &dev.Leaks[i]
		if x.Awaited {
			d := defect{report.Cause{Cause: report.RetainedGraph, FixID: new(checks.AwaitedBy(x)), At: facts.PlaceOf(e.CallOf(l)),
				StoredAt: x.Stored()}, l.Allocations}
			if len(x.Holders) > 0 {
				d.Holder = &x.Holders[0].Path
			}
			if same := slices.IndexFunc(out, func(y defect) bool { return checks.IsAwaited(y.FixID) }); same >= 0 {
				out[same].ids = append(slices.Clip(out[same].ids), d.ids...)
				continue
			}
			out = append(out, d)
			continue
		}
		unused, grows := e.UnusedGraph(l), l.Kind == classify.GrowingList || l.Kind == classify.RetainedGraph
		if !unused && !(grows && l.Defect) || !l.Told() || e.Mostly(l.Allocations, again.Allocations()) {
			continue
		}
		d := defect{e.leakCause(l, x, unused), l.Allocations}
		if same := slices.IndexFunc(out, d.sameHolder); same >= 0 {
			out[same].join(&d)
			continue
		}
		out = append(out, d)
	}
	return out
}

// join takes in what another leak keeps in the same variable, or beside it in the elements of one container.
func (d *defect) join(y *defect) {
	d.ids = append(slices.Clip(d.ids), y.ids...)
	if *d.Holder != *y.Holder {
		d.Holder = new(facts.ContainerOf(*d.Holder, *y.Holder))
	}
	both := *d.Leak
	both.Older += y.Leak.Older
	if both.TotalBytes += y.Leak.TotalBytes; both.BytesPerStep != nil && y.Leak.BytesPerStep != nil {
		both.BytesPerStep = new(*both.BytesPerStep + *y.Leak.BytesPerStep)
	}
	d.Leak, d.Count = &both, d.Count+y.Count
}

// commonPath is the container that all of some variables lie in.
func commonPath(holders []report.Holder) *string {
	paths := make([]string, len(holders))
	for i := range holders {
		paths[i] = holders[i].Path
	}
	return new(facts.CommonPath(paths))
}

// sameHolder reports whether another leak is kept by the same variable, or in the elements of the same container.
func (d *defect) sameHolder(y defect) bool {
	return y.Leak != nil && y.Cause.Cause == d.Cause.Cause && d.Holder != nil && y.Holder != nil &&
		(*d.Holder == *y.Holder || facts.ContainerOf(*d.Holder, *y.Holder) != "")
}

// leakCause is a leak as a cause, by what kind of memory stays and who keeps it.
func (e *examination) leakCause(l *classify.Leak, x *report.Leak, unused bool) report.Cause {
	d := report.Cause{Cause: report.LeakCause, FixID: &x.Kind, Leak: x, Unsure: l.Suspected}
	if unused || l.Kind == classify.RetainedGraph {
		d.Cause = report.RetainedGraph
	}
	if unused {
		d.FixID = new("missing_no_grad")
	}
	if d.At, d.StoredAt = x.Made(), x.Stored(); unused && d.At != nil {
		d.At = facts.PlaceOf(e.CallOf(l))
	}
	if len(x.Holders) > 0 {
		if d.Holder, d.Count = &x.Holders[0].Path, x.Holders[0].Tensors; x.Holders[0].Cycle {
			d.Cause = report.CycleCause
		}
	}
	return d
}

// lineThatMade is the user's line that some memory was made under, nil where no stack shows one.
func (e *examination) lineThatMade(ids []timeline.AllocationID) *report.Place {
	if line := e.CoveringLine(e.ByStack(ids)); line.File != "" {
		return facts.PlaceOf(line)
	}
	return nil
}

// sure is from how many percent on a category is told as a fact.
const sure = 71

// design is what the memory in use is for, less what defects keep: what no category names by the variable that holds it.
func (e *examination) design(event int, told map[timeline.AllocationID]bool) (out []report.Cause, all map[string]int64) {
	var rest, doubtful [classify.NumCategories]int64
	var unclear []timeline.AllocationID
	all = map[string]int64{}
	held := report.Cause{Cause: report.HeldCause}
	parts := variables{of: map[string]int{}}
	variables := e.heldWithoutName(event, told, func(h *classify.Holder, tensors int, bytes int64) {
		held.Bytes += bytes
		held.Count += tensors
		parts.add(h, bytes)
	})
	for i := range parts.all {
		if x := &parts.all[i]; x.bytes > held.Most {
			held.Holder, held.Most, held.Cause = &x.path, x.bytes, report.HeldCause
			if x.cycle {
				held.Cause = report.CycleCause
			}
		}
	}
	for i, bytes := range e.T.Allocated {
		id, c := timeline.AllocationID(i), e.Classes.Category[i]
		if !e.T.AliveAt(id, event) {
			continue
		}
		all[c.String()] += bytes
		if told[id] || variables[id] {
			continue
		}
		if rest[c] += bytes; e.Classes.Confidence[i] < sure {
			doubtful[c] += bytes
		}
		if c == classify.Unknown {
			unclear = append(unclear, id)
		}
	}
	guessed := e.guessesWeights(event)
	for i, bytes := range rest {
		c := report.Cause{Cause: classify.Category(i).String(), Bytes: bytes, Unsure: 2*doubtful[i] > bytes}
		switch category := classify.Category(i); {
		case category == classify.Temporary:
			c.Cause, c.Unsure = report.Temporaries, false
		case category == classify.Unknown:
			c.Cause, c.Unsure, c.At = report.Unclear, false, e.lineThatMade(unclear)
		case category == classify.Weights && guessed:
			c.Cause, c.Unsure = report.Unclear, false
		}
		out = append(out, c)
	}
	return append(out, held), all
}

// variable is the path of a variable, and what it holds.
type variable struct {
	path  string
	bytes int64
	cycle bool
}

// variables are those that hold something, each with all that lies in it.
type variables struct {
	all []variable
	of  map[string]int // the first, by the variable that it is or lies in
}

// add counts what a variable, or a part of one, holds.
func (v *variables) add(h *classify.Holder, bytes int64) {
	root, _, _ := strings.Cut(h.Path, "[")
	i, known := v.of[root]
	if known && !h.Cycle && !v.all[i].cycle {
		v.all[i].path, v.all[i].bytes = root, v.all[i].bytes+bytes
		return
	}
	if !known {
		v.of[root] = len(v.all)
	}
	v.all = append(v.all, variable{h.Path, bytes, h.Cycle})
}

// saysLittle reports whether a category says no more of what a variable holds than that it is there, is that of a training
// where nothing trains, of inputs by guess, or of a weight that is no module's and as large as one with a name: a copy.
func (e *examination) saysLittle(id timeline.AllocationID, h *classify.Holder, named map[int64]bool) bool {
	switch e.Classes.Category[id] {
	case classify.Temporary, classify.Unknown:
		return true
	case classify.Weights:
		return named[e.T.Requested(id)] && e.NameOf(id) == ""
	case classify.Inputs:
		return e.Classes.Confidence[id] < sure
	case classify.Activations:
		return len(h.Graph) == 0 && !strings.HasPrefix(h.Path, "forward().") && !facts.Phases.Of(e.Pass).Trains
	}
	return false
}

// heldWithoutName are the allocations after an event that variables hold and whose category says little.
func (e *examination) heldWithoutName(event int, told map[timeline.AllocationID]bool, tell func(*classify.Holder, int, int64),
) map[timeline.AllocationID]bool {
	found := map[timeline.AllocationID]bool{}
	named := map[int64]bool{} // sizes of weights
	for id := range e.Each(classify.Weights) {
		if e.NameOf(id) != "" {
			named[e.T.Requested(id)] = true
		}
	}
	for i := range e.Variables {
		h := &e.Variables[i]
		tensors, bytes := 0, int64(0)
		for _, id := range h.Tensors {
			if !told[id] && e.T.AliveAt(id, event) && e.saysLittle(id, h, named) {
				found[id] = true
				tensors++
				bytes += e.T.Allocated[id]
			}
		}
		if bytes > 0 {
			tell(h, tensors, bytes)
		}
	}
	return found
}

// around is what kept memory that was there from a request; nil where nothing did.
func (e *examination) around(dev *report.Device, o *report.OOM, r *timeline.OOM) *report.Cause {
	if m := e.messageOf(r, dev); m != nil && evidence.Or(m.CapacityBytes, o.ReservedBytes) < o.ReservedBytes {
		if f := oom.Judge(m); f.Asleep() > 0 {
			return &report.Cause{Cause: report.Sleeping, Bytes: f.Asleep(), FixID: new("asleep")}
		}
	}
	free := o.FreePieces
	if free != nil && free.Bytes >= o.RequestedBytes && len(e.T.Snapshot.Pools) > 1 {
		if apart := e.freeInPools(o); free.Bytes-apart < o.RequestedBytes {
			return &report.Cause{Cause: report.PrivatePool, Bytes: apart, FixID: new("private_pools")}
		}
	}
	switch o.Verdict {
	case report.MemoryFraction:
		return &report.Cause{Cause: report.FractionCause, Bytes: r.DeviceFree, FixID: new(advice.RaiseFraction)}
	case report.OtherProcess:
		return &report.Cause{Cause: report.OtherProcess, Bytes: max(0, e.othersAt(r, dev)), FixID: new(advice.StopOthers)}
	case report.PendingFree:
		return &report.Cause{Cause: report.PendingFree, Bytes: r.Active - r.Allocated, FixID: new("wait_for_stream")}
	case report.Fragmentation:
		c := &report.Cause{Cause: report.Pieces, FixID: new(advice.Expandable)}
		if free != nil {
			c.Bytes = free.Bytes - free.Largest
		}
		return c
	}
	return nil
}

// freeInPools are the free bytes of private pools when a request failed.
func (e *examination) freeInPools(o *report.OOM) (bytes int64) {
	for _, s := range e.T.LayoutAt(o.Event).Segments {
		for _, b := range s.Blocks {
			if s.Pool != 0 && b.Allocation == timeline.NoAllocation {
				bytes += b.Bytes
			}
		}
	}
	return bytes
}

// square is the length of which a request is the square, far beyond all that was in use: [N, 1] against [N] asks for
// N x N numbers. A tensor of that length must be there. 0: it is none.
func (e *examination) square(o *report.OOM) int64 {
	const far, least = 10, 1024
	if o.RequestedBytes < far*o.AllocatedBytes {
		return 0
	}
	lengths := map[int64]bool{}
	for i := range e.T.Allocated {
		if id := timeline.AllocationID(i); e.T.AliveAt(id, o.Event) {
			lengths[e.T.Requested(id)] = true
		}
	}
	for size := int64(1); size <= 8; size *= 2 {
		n := int64(math.Sqrt(float64(o.RequestedBytes / size)))
		if n >= least && o.RequestedBytes-n*n*size < 512 && lengths[n*size] {
			return n
		}
	}
	return 0
}
