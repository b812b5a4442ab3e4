package diagnose

import (
	"fmt"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/report"
)

// steps are the iterations that were recognised.
func (e *examination) steps() []report.Step {
	out := []report.Step{}
	for _, s := range e.classes.Steps {
		step := report.Step{Step: s.Number, FirstEvent: s.FirstEvent, LastEvent: s.LastEvent, PeakAllocatedBytes: s.PeakAllocated, Phases: []report.Phase{}}
		for _, p := range s.Phases {
			step.Phases = append(step.Phases, report.Phase{Phase: p.Phase.String(), FirstEvent: p.FirstEvent, LastEvent: p.LastEvent})
		}
		out = append(out, step)
	}
	return out
}

// leaks are what grows from step to step, or looks as if it did.
func (e *examination) leaks(dev *report.Device) []report.Leak {
	out := []report.Leak{}
	for i := range e.classes.Leaks {
		l := &e.classes.Leaks[i]
		x := report.Leak{Kind: l.Kind, Defect: l.Defect, Suspected: l.Suspected, Sites: []report.LeakSite{}, Category: ptr(l.Category.String()),
			BytesPerStep: ptr(l.BytesPerStep), Steps: l.Steps, TotalBytes: l.TotalBytes, Confidence: l.Confidence}
		if l.File != "" {
			x.File, x.Line, x.Function = &l.File, lineOf(l.Line), &l.Function
		}
		for _, s := range l.Sites {
			x.Sites = append(x.Sites, report.LeakSite{File: s.File, Line: lineOf(s.Line), Function: s.Function, Bytes: s.Bytes})
		}
		fix := l.Fix()
		x.Fix, x.FixCode = fix.Text, fix.Code
		if dev.CapacityBytes != nil {
			if step, ok := l.StepAtCapacity(*dev.CapacityBytes); ok {
				x.FullAtStep = &step
			}
		}
		out = append(out, x)
	}
	return out
}

// leakFindings turn leaks into findings: defects are warnings, the rest are
// costs or expected.
func (e *examination) leakFindings(dev *report.Device) []report.Finding {
	var out []report.Finding
	for i := range dev.Leaks {
		l := &dev.Leaks[i]
		f := report.Finding{ID: l.Kind, Severity: report.Info, Confidence: l.Confidence, Evidence: []string{}, Code: l.FixCode}
		if l.Fix != "" {
			f.Fix = &l.Fix
		}
		if l.Defect {
			f.Severity = report.Warning
			f.SavesBytes = &l.TotalBytes
		}
		f.Title = leakTitle(l)
		if l.File != nil {
			where := *l.Function + "  " + report.ShortFile(*l.File)
			if l.Line != nil {
				where += fmt.Sprintf(":%d", *l.Line)
			}
			f.Evidence = append(f.Evidence, where)
		}
		if grows := l.Kind == classify.GrowingList || l.Kind == classify.RetainedGraph || l.Kind == classify.FragmentationCreep; grows && l.BytesPerStep != nil {
			f.Evidence = append(f.Evidence, fmt.Sprintf("%s a step, seen in %s, %s in all", report.Bytes(*l.BytesPerStep), report.Plural(l.Steps, "step"), report.Bytes(l.TotalBytes)))
		} else {
			f.Evidence = append(f.Evidence, "seen in "+report.Plural(l.Steps, "step"))
		}
		if l.FullAtStep != nil {
			f.Evidence = append(f.Evidence, fmt.Sprintf("at this pace the GPU is full at step %s", report.Count(*l.FullAtStep)))
		}
		out = append(out, f)
	}
	return out
}

// leakTitle is a leak in one sentence.
func leakTitle(l *report.Leak) string {
	suspected := ""
	if l.Suspected {
		suspected = " (suspected: too few steps to be sure)"
	}
	what := map[string]string{
		classify.GrowingList:        "Tensors pile up from step to step",
		classify.RetainedGraph:      "Each step's autograd graph is kept alive, with all it saved for backward",
		classify.GradientsKept:      "Gradients are zeroed in place instead of freed: they stay through forward",
		classify.StaleOutputs:       "The last step's outputs are still alive during the next forward",
		classify.VaryingShapes:      "Every step asks for other sizes, so freed blocks don't fit again",
		classify.FragmentationCreep: "Reserved memory grows while allocated memory doesn't",
		classify.FirstStepState:     "The first optimizer step makes its state: expected, not a leak",
	}[l.Kind]
	return fmt.Sprintf("%s: %s%s", what, report.Bytes(l.TotalBytes), suspected)
}
