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

// measure finds the peak of the extent and of each of its phases, and what
// the budget has for them; the event of the peak is returned.
func (o *observed) measure(r *Result, x extent) int {
	spans := append(append([]span{}, x.phases...), o.firstOptimizer()...)
	whole, peaks := o.peaks(&x, spans)
	m := &r.Measured
	m.PeakBytes, m.Categories, m.Reserved = whole.Requested, o.categories(whole.event), o.t.Peaks.Reserved.Bytes
	if o.step != nil {
		m.Step = &o.step.Number
	}
	for i := range x.phases {
		if s := &x.phases[i]; s.FirstEvent <= whole.event && whole.event <= s.LastEvent {
			m.Phase = &s.name
		}
	}
	for i, p := range r.Phases {
		y := MeasuredPhase{Phase: p.Phase, Categories: map[string]int64{}}
		y.Budget, _ = x.phase(r, i)
		best := instant{}
		for i, s := range spans {
			if s.name == p.Phase && peaks[i].Requested > best.Requested {
				best = peaks[i]
			}
		}
		if best.Requested > 0 {
			y.PeakBytes, y.Categories = new(best.Requested), o.categories(best.event)
		}
		r.ByPhase = append(r.ByPhase, y)
	}
	r.expect(x)
	return whole.event
}

// peaks are the instants of most requested memory, in all of an extent and in each span.
func (o *observed) peaks(x *extent, spans []span) (whole instant, each []instant) {
	each = make([]instant, len(spans))
	if whole.event = x.first; x.first == timeline.NoEvent {
		whole.Levels = o.t.Start
	}
	o.t.Walk(func(event int, now timeline.Levels) {
		if x.first <= event && event <= x.last && now.Requested > whole.Requested {
			whole = instant{event, now}
		}
		for i := range spans {
			if spans[i].FirstEvent <= event && event <= spans[i].LastEvent && now.Requested > each[i].Requested {
				each[i] = instant{event, now}
			}
		}
	})
	return whole, each
}

// expect takes the largest of the phases that the extent has.
func (r *Result) expect(x extent) {
	r.Expected.PeakBytes = r.PeakBytes
	if x.note != "" {
		r.Expected.Note = &x.note
	}
	if x.note == "" || len(x.phases) < 1 || r.Setting["inference"] == true {
		return
	}
	r.Expected.PeakBytes = 0
	for _, p := range r.Phases {
		for _, s := range x.phases {
			if s.name == p.Phase || s.name == budget.Loss.String() && p.Phase == budget.Forward.String() {
				bytes, _ := x.expect(p)
				r.Expected.PeakBytes = max(r.Expected.PeakBytes, bytes)
			}
		}
	}
}

// firstOptimizer is the first step of the optimizer that came to its end.
func (o *observed) firstOptimizer() []span {
	for i := range o.c.Steps {
		s := &o.c.Steps[i]
		if o.failedIn(s) || !o.makesState(s) {
			continue
		}
		var out []span
		for _, p := range s.Phases {
			if p.Phase == classify.Optimizer {
				out = append(out, span{p, budget.FirstOptimizer.String()})
			}
		}
		return out
	}
	return nil
}

// categories are the requested bytes alive right after an event, by category.
func (o *observed) categories(event int) map[string]int64 {
	var sums [classify.NumCategories]int64
	for i := range o.c.Category {
		if id := timeline.AllocationID(i); o.t.AliveAt(id, event) {
			sums[o.c.Category[i]] += o.t.Requested(id)
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
