package compare

import (
	"fmt"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/timeline"
)

// extent is the part of a recording that is compared, and what of the budget
// it is compared with.
type extent struct {
	first, last int    // events, both included
	cold        bool   // the optimizer has no state yet
	phases      []span // that count
	note        string // why it is less than a steady step
}

// span is a stretch of the recording under the budget's name for its phase.
type span struct {
	classify.PhaseSpan
	name string
}

// extent is the step that is compared, or the phases of the last step that
// came to their end, or everything when nothing is trained.
func (o *observed) extent() extent {
	x := extent{first: timeline.NoEvent, last: len(o.t.Of) - 1, cold: o.first}
	switch {
	case o.step != nil:
		x.first, x.last, x.phases = o.step.FirstEvent, o.step.LastEvent, spansOf(o.step.Phases)
		if o.first {
			x.note = "only the first step is whole, in which the optimizer's state is made"
		}
	case o.training && len(o.c.Steps) > 0:
		s := &o.c.Steps[len(o.c.Steps)-1]
		x.first, x.phases = s.FirstEvent, spansOf(s.Phases)
		x.cold = !o.stateBefore(s.FirstEvent)
		o.cutShort(&x)
	default:
		for i := range o.c.Steps {
			x.phases = append(x.phases, spansOf(o.c.Steps[i].Phases)...)
		}
		if len(o.t.OOMs) > 0 {
			x.note = "the run ended in an out-of-memory error: compared up to there"
		}
	}
	return x
}

// cutShort leaves out the phase that did not come to its end, and one whose
// beginning is older than the recording.
func (o *observed) cutShort(x *extent) {
	why := "the recording holds no whole step"
	n := len(x.phases)
	if len(o.t.OOMs) > 0 {
		why = "the run ended in an out-of-memory error"
		if n >= 2 {
			cut := x.phases[n-1]
			x.phases = x.phases[:n-1]
			x.last = cut.FirstEvent - 1
			x.note = fmt.Sprintf("%s in the %s: compared up to the end of the %s", why, phaseWords[cut.name],
				phaseWords[x.phases[n-2].name])
			return
		}
	} else if n >= 2 && x.phases[0].FirstEvent == 0 {
		x.phases = x.phases[1:]
		x.first, x.last = x.phases[0].FirstEvent, x.phases[n-2].LastEvent
		x.note = fmt.Sprintf("%s: compared from the beginning of its %s", why, phaseWords[x.phases[0].name])
		return
	}
	x.note = why + ": compared as far as it goes, with the budget of a whole one"
}

var phaseWords = map[string]string{
	budget.Loss.String(): "forward pass", budget.Backward.String(): "backward pass",
	budget.Optimizer.String(): "optimizer's step", budget.Decode.String(): "generation",
}

// stateBefore reports whether there is optimizer state at an event.
func (o *observed) stateBefore(event int) bool {
	for i, category := range o.c.Category {
		if category == classify.OptimizerState && o.c.Detail[i] != classify.StepCounter && o.t.AliveAt(timeline.AllocationID(i),
			event) {
			return true
		}
	}
	return false
}

// spansOf are the phases that a budget has too.
func spansOf(phases []classify.PhaseSpan) []span {
	var out []span
	for _, p := range phases {
		if name := phaseName(p.Phase); name != "" {
			out = append(out, span{p, name})
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

// phase is what a phase of the budget needs as far as it is compared. A recording
// doesn't tell the forward pass from the loss: their larger one stands for both.
func (x *extent) phase(r *Result, i int) (int64, map[string]int64) {
	bytes, categories := x.expect(r.Phases[i])
	if r.Phases[i].Phase == budget.Loss.String() && i > 0 && r.Phases[i-1].Phase == budget.Forward.String() {
		if forward, theirs := x.expect(r.Phases[i-1]); forward > bytes {
			return forward, theirs
		}
	}
	return bytes, categories
}

// expect is the budget's peak and categories in a phase of an extent.
func (x *extent) expect(p budget.DocPhase) (int64, map[string]int64) {
	state := p.Categories[budget.OptimizerState.String()]
	if !x.cold || state == 0 || p.Phase == budget.Optimizer.String() || p.Phase == budget.FirstOptimizer.String() {
		return p.PeakBytes, p.Categories
	}
	out := map[string]int64{}
	for k, v := range p.Categories {
		if k != budget.OptimizerState.String() {
			out[k] = v
		}
	}
	return p.PeakBytes - state, out
}
