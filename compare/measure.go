package compare

import (
	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/timeline"
)

// instant is the state at one event.
type instant struct {
	event int
	timeline.Levels
}

// measure finds the peak of the steady step and of each of its phases.
func (e *eye) measure(doc *budget.Document) (Measured, []MeasuredPhase) {
	step := e.steady()
	first, last := timeline.NoEvent, len(e.t.Of)-1
	m := Measured{}
	if step != nil {
		first, last = step.FirstEvent, step.LastEvent
		m.Step = &step.Number
	}
	spans := e.spans(step)
	peaks := make([]instant, len(spans))
	whole := instant{event: timeline.NoEvent, Levels: e.t.Start}
	if first > timeline.NoEvent {
		whole.Levels = timeline.Levels{}
	}
	e.t.Walk(func(event int, now timeline.Levels) {
		if first <= event && event <= last && now.Requested > whole.Requested {
			whole = instant{event, now}
		}
		for i, s := range spans {
			if s.FirstEvent <= event && event <= s.LastEvent && now.Requested > peaks[i].Requested {
				peaks[i] = instant{event, now}
			}
		}
	})
	m.PeakBytes, m.Categories, m.Reserved = whole.Requested, e.categories(whole.event), e.t.Peaks.Reserved.Bytes
	var phases []MeasuredPhase
	for _, p := range doc.Phases {
		x := MeasuredPhase{Phase: p.Phase, Categories: map[string]int64{}}
		best := instant{}
		for i, s := range spans {
			if s.name == p.Phase && peaks[i].Requested > best.Requested {
				best = peaks[i]
			}
		}
		if best.Requested > 0 {
			bytes := best.Requested
			x.PeakBytes, x.Categories = &bytes, e.categories(best.event)
		}
		phases = append(phases, x)
	}
	return m, phases
}

// span is a stretch of the recording under the budget's name for its phase.
type span struct {
	classify.PhaseSpan
	name string
}

// spans are the phases of the steady step, and the first optimizer step.
func (e *eye) spans(step *classify.Step) []span {
	var out []span
	if step != nil {
		for _, p := range step.Phases {
			if name := phaseName(p.Phase); name != "" {
				out = append(out, span{p, name})
			}
		}
	}
	for i := range e.c.Steps {
		n := len(out)
		for _, p := range e.c.Steps[i].Phases {
			if p.Phase == classify.Optimizer {
				out = append(out, span{p, budget.FirstOptimizer.String()})
			}
		}
		if len(out) > n {
			return out
		}
	}
	return out
}

// phaseName is the budget's word for a recorded phase. A recording's forward
// runs up to the loss, which is where it peaks.
func phaseName(p classify.Phase) string {
	switch p {
	case classify.Forward:
		return budget.Loss.String()
	case classify.Backward:
		return budget.Backward.String()
	case classify.Optimizer:
		return budget.Optimizer.String()
	case classify.Generate:
		return budget.Decode.String()
	}
	return ""
}

// categories are the requested bytes alive right after an event, by category.
func (e *eye) categories(event int) map[string]int64 {
	var sums [classify.NumCategories]int64
	for i := range e.c.Category {
		if id := timeline.AllocationID(i); e.t.AliveAt(id, event) {
			sums[e.c.Category[i]] += e.t.Requested(id)
		}
	}
	out := map[string]int64{}
	for i, bytes := range sums {
		if bytes > 0 {
			out[classify.Category(i).String()] = bytes
		}
	}
	return out
}
