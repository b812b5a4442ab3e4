package diagnose

import (
	"cmp"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/checks"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
)

// stepsOf are the iterations that were recognised.
func stepsOf(c *classify.Classification) []report.Step {
	out := []report.Step{}
	for _, s := range c.Steps {
		step := report.Step{Step: s.Number, FirstEvent: s.FirstEvent, LastEvent: s.LastEvent, PeakAllocatedBytes: s.PeakAllocated,
			Phases: []report.Phase{}}
		for _, p := range s.Phases {
			step.Phases = append(step.Phases, report.Phase{Phase: p.Phase.String(), FirstEvent: p.FirstEvent,
				LastEvent: p.LastEvent})
		}
		out = append(out, step)
	}
	return out
}

// leaksOf are what grows from step to step, or looks as if it did.
func (e *examination) leaks(dev *report.Device) []report.Leak {
	c := e.Classes
	out := []report.Leak{}
	for i := range c.Leaks() {
		l := &c.Leaks()[i]
		x := report.Leak{Kind: l.Kind, Defect: l.Defect, Suspected: l.Suspected, Sites: []report.LeakSite{},
			Holders:      []report.Holder{},
			Category:     new(l.Category.String()),
			BytesPerStep: new(l.BytesPerStep), Steps: l.Steps, TotalBytes: l.TotalBytes, Confidence: l.Confidence}
		if l.Steps == 0 {
			x.BytesPerStep = nil
		}
		if l.File != "" {
			x.File, x.Line, x.Function = &l.File, facts.LineOf(l.Line), &l.Function
		}
		if l.Made.File != "" {
			x.MadeIn = facts.PlaceOf(l.Made)
		}
		if l.CalledFrom.File != "" {
			x.CalledFrom = facts.PlaceOf(l.CalledFrom)
		}
		for _, s := range l.Sites {
			x.Sites = append(x.Sites, report.LeakSite{File: s.File, Line: facts.LineOf(s.Line), Function: s.Function,
				Bytes: s.Bytes})
		}
		if l.Defect {
			x.Holders = e.leakHolders(l)
			if h := x.Holders; l.Kind == classify.GrowingList && len(h) > 0 && h[0].GraphBytes > h[0].Bytes {
				l.Kind = classify.RetainedGraph // the variable knows what memory alone doesn't show
				x.Kind = l.Kind
			}
			if fills(&x, evidence.Or(dev.CapacityBytes, 0)) {
				l.Defect, l.Suspected = false, true
				x.Defect, x.Suspected = false, true
			}
		}
		e.stored(l, &x)
		fix := checks.LeakAdvice(l, &x)
		x.Fix, x.FixCode = fix.Text, cmp.Or(x.FixCode, fix.Code)
		if dev.CapacityBytes != nil {
			if step, ok := l.StepAtCapacity(*dev.CapacityBytes); ok {
				x.FullAtStep = &step
			}
		}
		out = append(out, x)
	}
	return out
}
