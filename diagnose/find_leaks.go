package diagnose

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

// leakFindings turn leaks into findings: defects are warnings, the rest are
// costs or expected.
func (e *examination) leakFindings(dev *report.Device, f *facts) []draft {
	var out []draft
	for i := range dev.Leaks {
		l := &dev.Leaks[i]
		kept := &e.classes.Leaks()[i]
		ids := kept.Allocations
		if (l.Kind == classify.StaleOutputs || kept.Untrained) && e.mostly(ids, e.unused) {
			continue // the graph behind them is what counts, and is reported
		}
		if l.Kind == classify.GrowingList && e.mostly(ids, e.again) {
			continue // so are the models and optimizers that they are of
		}
		d := draft{Finding: report.Finding{ID: l.Kind, Severity: report.Info, Confidence: l.Confidence, Evidence: []string{},
			Code: l.FixCode}}
		if l.Fix != "" {
			d.Fix = &l.Fix
		}
		if l.Defect {
			d.Severity = report.Warning
		}
		d.Title = leakTitle(l)
		unused := e.unusedGraph(kept, f)
		if unused {
			untrained(&d, l, f.trains)
			d.spells = e.afterUse(ids)
		}
		if d.ID == l.Kind {
			d.Evidence = append(d.Evidence, leakEvidence(l, kept.Older, len(dev.OOMs) > 0)...)
		}
		switch {
		case unused:
		case kept.Untrained:
			d.spells, d.without = e.afterUse(ids), "without what is kept,"
		case l.Kind == classify.GrowingList, l.Kind == classify.RetainedGraph:
			d.spells, d.without = e.beyondStep(ids), "without what is kept,"
		case l.Kind == classify.StaleOutputs:
			d.spells, d.without = e.beyondStep(ids), "dropped at the end of their step,"
		case l.Kind == classify.GradientsKept:
			d.change = "gradients=set_to_none"
			d.spells, d.without = e.betweenSteps(ids), "freed after each optimizer step,"
		case l.Kind == classify.FirstStepState:
			d.change = "optimizer=8bit"
			such := "AdamW or Adafactor"
			if name := strings.TrimSuffix(kept.EightBit(), "8bit"); name != "AdamW" {
				such = name
			}
			d.Fix = ptr("Where room is missing: an optimizer that keeps fewer bytes for each parameter, such as an 8-bit " + such)
			if rest := e.unmade(dev); rest > 0 {
				d.change = ""
				d.Title += " until it failed"
				d.Evidence = append(d.Evidence, units.Bytes(rest)+" of it were still to come")
			}
		case kept.Reused(): // segments grow already
		case l.Kind == classify.VaryingShapes:
			d.setting = expandable
		case l.Kind == classify.FragmentationCreep:
			d.setting, d.worth = expandable, 1
		}
		out = append(out, d)
	}
	return out
}

// unmade is what an optimizer's first step that failed had yet to make of its state.
func (e *examination) unmade(dev *report.Device) int64 {
	for i := range min(len(dev.OOMs), maxExplained) {
		o := &e.t.OOMs[i]
		if p := dev.OOMs[i].Phase; p != nil && *p == classify.Optimizer.String() {
			if still := e.stillToCome(o); still > o.Requested {
				return still
			}
		}
	}
	return 0
}

// unusedGraph tells whether what is kept are graphs of passes that aren't trained
// on.
func (e *examination) unusedGraph(l *classify.Leak, f *facts) bool {
	if l.Untrained {
		return l.Kind == classify.RetainedGraph
	}
	if f.trains {
		return false
	}
	var made []int32
	return l.Kind == classify.RetainedGraph || l.Kind == classify.StaleOutputs && len(l.Allocations) >= bulkLeast &&
		e.isGraph(l.Allocations, &made)
}

// untrained is about graphs that needn't be there at all, in a program that trains,
// or not as far as was recorded.
func untrained(d *draft, l *report.Leak, trains bool) {
	d.ID, d.Severity = "missing_no_grad", report.Warning
	d.Confidence = min(d.Confidence, 0.8)
	d.Title = fmt.Sprintf("Missing no_grad: graphs of %s are kept, and no backward pass uses them", units.Bytes(l.TotalBytes))
	at := "the forward pass"
	if l.File != nil {
		at = "the call in " + lineText(frames.Line{Function: *l.Function, File: *l.File, Line: intOf(l.Line)})
		d.Evidence = append(d.Evidence, "called in "+strings.TrimPrefix(at, "the call in "))
	}
	d.Fix = ptr(fmt.Sprintf("Put torch.no_grad() around %s: nothing is kept for backward then", at))
	if !trains {
		*d.Fix += ". If these passes are trained on, call backward() after each instead of once for the sum of their losses"
	}
	d.Code = noGradCode
	d.without = "without the graphs,"
}

// leaked is what defects keep.
func (e *examination) leaked() (ids []timeline.AllocationID) {
	for _, l := range e.classes.Leaks() {
		if l.Defect {
			ids = append(ids, l.Allocations...)
		}
	}
	return ids
}

// mostly tells whether at least half of some memory is that of others.
func (e *examination) mostly(ids, others []timeline.AllocationID) bool {
	if len(others) == 0 {
		return false
	}
	known := make(map[timeline.AllocationID]bool, len(others))
	for _, id := range others {
		known[id] = true
	}
	var both, all int64
	for _, id := range ids {
		all += e.t.Allocated[id]
		if known[id] {
			both += e.t.Allocated[id]
		}
	}
	return 2*both >= all
}

// beyondStep is what allocations take after the step that made them.
func (e *examination) beyondStep(ids []timeline.AllocationID) []spell {
	end := make(map[int32]int, len(e.classes.Steps))
	for i := range e.classes.Steps {
		end[int32(e.classes.Steps[i].Number)] = e.classes.Steps[i].LastEvent
	}
	out := make([]spell, 0, len(ids))
	for _, id := range ids {
		s := e.lifeOf(id)
		if last, ok := end[e.classes.Step[id]]; ok {
			s.from = max(s.from, last)
		}
		out = append(out, s)
	}
	return out
}

// betweenSteps is what gradients take from the end of an optimizer step to the
// beginning of the next backward pass.
func (e *examination) betweenSteps(ids []timeline.AllocationID) (out []spell) {
	steps := e.classes.Steps
	for i := range steps[:max(0, len(steps)-1)] {
		from, to := -1, -1
		for _, p := range steps[i].Phases {
			if p.Phase == classify.Optimizer {
				from = p.LastEvent
			}
		}
		for _, p := range steps[i+1].Phases {
			if p.Phase == classify.Backward && to < 0 {
				to = p.FirstEvent
			}
		}
		if from < 0 || to < from {
			continue
		}
		s := spell{from: from, to: to}
		for _, id := range ids {
			if e.t.AliveAt(id, from) && e.t.AliveAt(id, to) {
				s.bytes += e.t.Allocated[id]
			}
		}
		out = append(out, s)
		if len(out) == maxSpells {
			break
		}
	}
	return out
}

// maxSpells bounds the work on recordings of very many steps.
const maxSpells = 500

// leakEvidence is what shows a leak, of which older bytes were made before the trace.
func leakEvidence(l *report.Leak, older int64, failed bool) (out []string) {
	if l.File != nil {
		where := *l.Function + "  " + report.ShortFile(*l.File)
		if l.Line != nil {
			where += fmt.Sprintf(":%d", *l.Line)
		}
		out = append(out, where+calledFrom(l.CalledFrom))
	}
	if l.MadeIn != nil {
		out = append(out, "made in "+placeText(l.MadeIn))
	}
	if grows := l.Kind == classify.GrowingList || l.Kind == classify.RetainedGraph ||
		l.Kind == classify.FragmentationCreep; grows && l.BytesPerStep != nil {
		before := ""
		if older > 0 {
			before = units.Bytes(older) + " from before the first event, "
		}
		usually := ""
		if uneven(l, older) {
			usually = "usually "
		}
		out = append(out, fmt.Sprintf("%s a step, seen in %s, %s%s in all", usually+units.Bytes(*l.BytesPerStep),
			units.Plural(l.Steps, "step"), before, units.Bytes(l.TotalBytes)))
	} else {
		out = append(out, "seen in "+units.Plural(l.Steps, "step"))
	}
	if l.FullAtStep != nil && !failed {
		out = append(out, fmt.Sprintf("at this pace the GPU is full at step %s", units.Count(*l.FullAtStep)))
	}
	return out
}

// uneven tells whether steps differ in what they leave: the sum, of which older
// bytes were made before the trace, isn't that many times what they usually do.
func uneven(l *report.Leak, older int64) bool {
	off := l.TotalBytes - older - int64(l.Steps)**l.BytesPerStep
	return max(off, -off)*20 > l.TotalBytes
}

// leakTitle is a leak in one sentence.
func leakTitle(l *report.Leak) string {
	suspected := ""
	if l.Suspected && (l.Kind != classify.FirstStepState || l.Confidence < 0.9) { // a single step shows it by its nature
		suspected = " (suspected: too few steps to be sure)"
		if l.Steps >= 5 {
			suspected = " (suspected)"
		}
	}
	if l.Kind == classify.VaryingShapes {
		return fmt.Sprintf("Every step asks for other sizes: the steps' peaks are up to %s apart%s", units.Bytes(l.TotalBytes),
			suspected)
	}
	what := map[string]string{
		classify.GrowingList:        "Tensors pile up from step to step",
		classify.RetainedGraph:      "Each step's autograd graph is kept alive, with all it saved for backward",
		classify.GradientsKept:      "Gradients are zeroed in place instead of freed: they stay through forward",
		classify.StaleOutputs:       "The last step's outputs are still alive during the next forward",
		classify.FragmentationCreep: "Reserved memory grows by more than allocated memory does",
		classify.FirstStepState:     "The first optimizer step makes its state: expected, not a leak",
	}[l.Kind]
	return fmt.Sprintf("%s: %s%s", what, units.Bytes(l.TotalBytes), suspected)
}
