package diagnose

import (
	"fmt"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

// ownTemporaries finds peaks in what the program does for itself outside of
// its passes, such as copies of all weights that are about to be saved.
func (e *examination) ownTemporaries(dev *report.Device, f *facts) []draft {
	own := func(i int) bool {
		return e.classes.Category[i] == classify.Temporary && e.classes.Phase[i] == classify.OtherPhase &&
			e.t.Stack(timeline.AllocationID(i)) != 0 &&
			e.goesInTime(timeline.AllocationID(i))
	}
	var ids []timeline.AllocationID
	var bytes int64
	lasting := map[int64]bool{} // requested bytes of weights and their state
	for i, c := range e.classes.Category {
		id := timeline.AllocationID(i)
		if !e.t.AliveAt(id, e.t.Peaks.Allocated.Event) {
			continue
		}
		switch {
		case c == classify.Weights, c == classify.OptimizerState:
			lasting[e.t.Requested(id)] = true
		case own(i):
			ids = append(ids, id)
			bytes += e.t.Allocated[i]
		}
	}
	if share(bytes, dev.AtPeak.AllocatedBytes) < 15 || bytes < 64<<20 || e.collects {
		return nil
	}
	for _, l := range e.classes.Leaks() {
		if l.Defect && e.mostly(ids, l.Allocations) {
			return nil
		}
	}
	made := e.byStack(ids)
	var copied, used int64
	d := draft{Finding: report.Finding{ID: "own_temporaries", Severity: f.severity(), Confidence: 0.85}, without: "without them,"}
	for i := range e.classes.Category {
		if id := timeline.AllocationID(i); own(i) && made[e.t.Stack(id)] > 0 {
			d.spells = append(d.spells, e.lifeOf(id))
		}
	}
	for _, id := range ids {
		if lasting[e.t.Requested(id)] {
			copied += e.t.Allocated[id]
		}
		if e.seesPass(id, f) {
			used += e.t.Allocated[id]
		}
	}
	what := "What the program makes for itself takes"
	d.Fix = ptr("Do it in smaller pieces, free each result before the next is made (del), or do it on the host")
	if copied*5 >= bytes*4 && len(ids) > 1 {
		if used*2 > bytes { // weights that a pass runs with, as the inner steps of meta-learning make them
			return nil
		}
		what = "Copies of weights and of their state take"
		d.Fix = ptr("Copy weights and state to the host tensor by tensor before they are saved, without a copy of all of them " +
			"on the GPU")
		d.Code = "state = {name: t.detach().cpu() for name, t in model.state_dict().items()}"
	}
	d.Title = fmt.Sprintf("%s %s of the peak, outside of all passes", what, units.Bytes(bytes))
	if line := e.coveringLine(made); line.File != "" {
		d.Evidence = append(d.Evidence, "made in "+lineText(line))
	}
	d.Evidence = append(d.Evidence, units.Plural(len(ids), "block")+" at the peak, gone soon after")
	return []draft{d}
}

// goesInTime tells whether an allocation is gone before the step after its own is
// over: what stays longer is kept, whatever it is.
func (e *examination) goesInTime(id timeline.AllocationID) bool {
	steps := e.classes.Steps
	next := int(e.classes.Step[id]) + 1
	return len(steps) == 0 || next < len(steps) && e.lifeOf(id).to <= steps[next].LastEvent || next == len(steps) &&
		e.t.FreeRequested[id] != timeline.Never
}

// seesPass tells whether an allocation is there for the whole of a forward or
// backward pass.
func (e *examination) seesPass(id timeline.AllocationID, f *facts) bool {
	life := e.lifeOf(id)
	for _, s := range f.spans {
		if (s.Phase == classify.Forward || s.Phase == classify.Backward) && s.FirstEvent >= life.from && s.LastEvent <= life.to {
			return true
		}
	}
	return false
}
