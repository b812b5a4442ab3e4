package compare

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/classify"
)

// tolerance is the share of the peak below which a difference needs no word.
const tolerance = 0.01

// gaps compares category by category at each side's own peak.
func (e *eye) gaps(r *Result, s budget.Setting) []Gap {
	out := []Gap{}
	for i := range classify.NumCategories {
		name := classify.Category(i).String()
		g := Gap{Category: name, Budget: r.Categories[name], Measured: r.Measured.Categories[name]}
		if g.Budget == 0 && g.Measured == 0 {
			continue
		}
		if d := g.Measured - g.Budget; float64(max(d, -d)) > tolerance*float64(r.PeakBytes) {
			if why := e.reason(classify.Category(i), g, r, s); why != "" {
				g.Reason = &why
			}
		}
		out = append(out, g)
	}
	slices.SortStableFunc(out, func(a, b Gap) int {
		return -cmp.Compare(abs(a.Measured-a.Budget), abs(b.Measured-b.Budget))
	})
	return out
}

func abs(n int64) int64 { return max(n, -n) }

// reason is the likely cause of a difference, "" when none is known.
func (e *eye) reason(c classify.Category, g Gap, r *Result, s budget.Setting) string {
	more := g.Measured > g.Budget
	switch {
	case c == classify.Weights && more && g.Measured > g.Budget*3/2:
		return "more weights than the model has: a second copy (EMA, a reference model), or a wider type"
	case c == classify.Gradients && more && e.keepsGradients():
		return "gradients are kept through the forward pass: zero_grad(set_to_none=False)"
	case c == classify.Activations && more && s.Checkpointing == "full":
		return "checkpointing saves less than expected: part of the model runs outside it"
	case c == classify.Activations && more && s.Checkpointing != "full" && e.retains():
		return "the graphs of earlier steps are still alive"
	case c == classify.Logits && more:
		return "more copies of the logits than the loss needs: float32 copies, or the last step's outputs still held"
	case c == classify.KVCache && more && !s.Inference:
		return "keys and values are cached in training: use_cache=False"
	case c == classify.AutocastCopies && more:
		return "autocast keeps casts of the weights until it ends"
	case c == classify.Temporary && more:
		return "temporaries of operations that the budget has no formula for"
	case !more && r.Measured.PeakBytes < r.PeakBytes && r.Measured.Step == nil:
		return "no whole training step is in the recording"
	}
	return ""
}

// explainPhases names what is alive in a phase without being needed there.
func (e *eye) explainPhases(r *Result) {
	for i := range r.ByPhase {
		m := &r.ByPhase[i]
		if m.PeakBytes == nil || float64(*m.PeakBytes-r.Phases[i].PeakBytes) < tolerance*float64(r.PeakBytes) {
			continue
		}
		var stale int64
		for _, l := range e.c.Leaks {
			if l.Kind == classify.StaleOutputs {
				stale += l.BytesPerStep
			}
		}
		switch {
		case stale > 0 && 2*stale > *m.PeakBytes-r.Phases[i].PeakBytes:
			why := "the last outputs are still held: del them after the backward pass"
			m.Reason = &why
		case e.retains():
			why := "the graphs of earlier steps are still alive"
			m.Reason = &why
		}
	}
}

func (e *eye) retains() bool {
	for _, l := range e.c.Leaks {
		if l.Kind == classify.RetainedGraph {
			return true
		}
	}
	return false
}
