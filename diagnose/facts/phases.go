package facts

import (
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

// StepAt is the number of the step of an event, -1 outside of all.
func (p *Pass) StepAt(event int) int32 {
	for i := range p.Classes.Steps {
		if s := &p.Classes.Steps[i]; s.FirstEvent <= event && event <= s.LastEvent {
			return int32(s.Number)
		}
	}
	return -1
}

// StepNear is the number of the step of an event or, between steps, of the one
// before; -1 before the first.
func (p *Pass) StepNear(event int) int32 {
	steps := p.Classes.Steps
	if len(steps) == 0 || event < steps[0].FirstEvent {
		return -1
	}
	i, found := slices.BinarySearchFunc(steps, event, func(s classify.Step, at int) int { return s.FirstEvent - at })
	if !found {
		i--
	}
	return int32(steps[i].Number)
}

// StepsAfter is how many steps a program made after a failure that was its last.
func StepsAfter(d *report.Device, event int) int {
	for i := range d.OOMs {
		if d.OOMs[i].Event == event {
			return d.OOMs[i].StepsAfter
		}
	}
	return 0
}

// Phases are the phases of the whole recording, and what they say of the work.
var Phases = Named("phases", func(p *Pass) Work {
	w := Work{Spans: slices.Clone(p.Classes.Before)}
	for i := range p.Classes.Steps {
		w.Spans = append(w.Spans, p.Classes.Steps[i].Phases...)
	}
	has := func(p classify.Phase) bool {
		return slices.ContainsFunc(w.Spans, func(s classify.PhaseSpan) bool { return s.Phase == p })
	}
	w.Unseen = !has(classify.Backward) && has(classify.Optimizer)
	w.Trains = w.Unseen || has(classify.Backward)
	return w
})

// Untracked reports whether the pass at an event keeps far less of what it made than one that was trained on before: no graph.
func (p *Pass) Untracked(event int) bool {
	const far = 2
	spans := Phases.Of(p).Spans
	trained, here := -1.0, -1.0
	for i, s := range spans {
		switch {
		case s.Phase != classify.Forward:
		case s.FirstEvent <= event && event <= s.LastEvent:
			here = keptOf(p, s.FirstEvent, event)
		case i+1 < len(spans) && spans[i+1].Phase == classify.Backward && s.LastEvent < event:
			trained = keptOf(p, s.FirstEvent, s.LastEvent)
		}
	}
	return here >= 0 && here*far < trained
}

// keptOf is the part of what is made in a span of events that is still there at its end.
func keptOf(p *Pass, first, last int) float64 {
	var made, kept int64
	for id := int(p.T.BornSince(first)); id < p.T.Len() && p.T.BornAt(timeline.AllocationID(id)) <= last; id++ {
		made += p.T.Allocated[id]
		if p.T.AliveAt(timeline.AllocationID(id), last) {
			kept += p.T.Allocated[id]
		}
	}
	return float64(kept) / float64(max(1, made))
}

// Work is what a program does.
type Work struct {
	Spans  []classify.PhaseSpan // of the whole recording, in order
	Trains bool                 // some backward pass is seen, or an optimizer's step
	Unseen bool                 // it trains, but no backward pass could be seen
}
