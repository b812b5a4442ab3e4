package diagnose

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/checks"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/source"
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
			BytesPerStep: new(l.BytesPerStep), Steps: l.Steps, TotalBytes: l.TotalBytes, Older: l.Older,
			Confidence: l.Confidence}
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
			e.knowByHolders(l, &x)
			if fills(&x, evidence.Or(dev.CapacityBytes, 0)) {
				l.Defect, l.Suspected = false, true
				x.Defect, x.Suspected = false, true
			}
		}
		if dev.CapacityBytes != nil {
			if step, ok := l.StepAtCapacity(*dev.CapacityBytes); ok {
				x.FullAtStep = &step
			}
		}
		out = append(out, x)
	}
	places := make([]*source.Place, len(out)) // the statements that keep them, nil where none is sure
	for i := range out {
		places[i] = e.storing(&c.Leaks()[i], &out[i])
	}
	e.awaited(out, places)
	for i := range out {
		l, x := &c.Leaks()[i], &out[i]
		e.stored(l, x, places[i])
		fix := checks.LeakAdvice(l, x)
		x.Fix, x.FixCode = fix.Text, cmp.Or(x.FixCode, fix.Code)
	}
	return out
}

// kindByHolders is a list's kind where variables show what memory alone doesn't: the graphs behind the tensors, or that none
// stands behind those that they hold.
func kindByHolders(l *classify.Leak, holders []report.Holder) string {
	var own, graphs int64
	for i := range holders {
		own += holders[i].Bytes
		graphs += holders[i].GraphBytes
	}
	switch {
	case l.Kind == classify.GrowingList && len(holders) > 0 && holders[0].GraphBytes > holders[0].Bytes:
		return classify.RetainedGraph
	case l.Kind == classify.RetainedGraph && graphs == 0 && 2*own > l.TotalBytes && !holders[0].Cycle:
		return classify.GrowingList
	}
	return l.Kind
}

// knowByHolders takes a leak for what variables show of it; lists of passes that are trained on later, as a rollout's results
// are, are no defect.
func (e *examination) knowByHolders(l *classify.Leak, x *report.Leak) {
	x.Kind = kindByHolders(l, x.Holders)
	if x.Kind != l.Kind && l.Untrained && x.Kind == classify.GrowingList && e.trainsAfter(l) {
		l.Defect, x.Defect = false, false
	}
	l.Kind = x.Kind
}

// trainsAfter reports whether a backward pass follows all that a leak keeps.
func (e *examination) trainsAfter(l *classify.Leak) bool {
	last := e.T.BornAt(l.Allocations[len(l.Allocations)-1])
	return slices.ContainsFunc(facts.Phases.Of(e.Pass).Spans, func(s classify.PhaseSpan) bool {
		return s.Phase == classify.Backward && s.FirstEvent > last
	})
}

// awaited marks graphs that a backward pass waits for, and what else their variable keeps.
func (e *examination) awaited(all []report.Leak, places []*source.Place) {
	for i := range all {
		x := &all[i]
		if x.Kind != classify.RetainedGraph || x.Awaited || places[i] == nil || !places[i].Awaited() {
			continue
		}
		showPlace(x, places[i])
		for k := range all {
			y := &all[k]
			if k == i || y.Kind == x.Kind && len(y.Holders) > 0 && len(x.Holders) > 0 && y.Holders[0].Path == x.Holders[0].Path {
				y.Defect, y.Awaited, e.Classes.Leaks()[k].Defect = false, true, false
				y.Gathered = places[i].Form != source.Carried
			}
		}
	}
}
