package facts

import (
	"fmt"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/replay/passes"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

// Projection is what a run that failed needed altogether; nil where nothing shows what was
// still to come, or the program went on.
var Projection = Named("projection", func(p *Pass) *report.Projection {
	if len(p.T.OOMs) == 0 || len(p.Dev.OOMs) == 0 {
		return nil
	}
	o := &p.T.OOMs[len(p.T.OOMs)-1]
	s := p.Shortage(o)
	phase := p.Dev.OOMs[len(p.Dev.OOMs)-1].Phase
	if s.After > 0 || phase == nil || s.Usable == 0 {
		return nil
	}
	held := p.heldAt(o.Event)
	done, layers, layersBytes := passes.LayersToCome(p.Classes, o)
	switch state := passes.FirstState(p.Classes, o); {
	case state.ToCome > o.Requested:
		return p.project(o, held, s, fmt.Sprintf("%d of %d parameters have state", state.Made, state.Of),
			report.Missing{Category: classify.OptimizerState.String(), Bytes: state.ToCome})
	case s.Still > o.Requested:
		return &report.Projection{NeedsBytes: s.Need(o), Basis: "by the step before", Missing: []report.Missing{}}
	case *phase == classify.Forward.String() && layersBytes > o.Requested:
		return p.project(o, held, s, fmt.Sprintf("%d of %d layers are through; what follows them isn't counted", done, layers),
			report.Missing{Category: classify.Activations.String(), Bytes: layersBytes})
	case *phase == classify.Backward.String() && held[classify.OptimizerState] == 0 && held[classify.Weights] > 0 &&
		!p.Dev.AtPeak.GuessedWeights:
		// In a first backward pass nothing shows yet which weights are trained.
		w := held[classify.Weights]
		return p.project(o, held, s, "if all weights are trained, with two moments each", report.Missing{
			Category: classify.Gradients.String(), Bytes: max(0, w-held[classify.Gradients])},
			report.Missing{Category: classify.OptimizerState.String(), Bytes: 2 * w})
	}
	return nil
})

// heldAt is what is allocated after an event, by category.
func (p *Pass) heldAt(event int) (held [classify.NumCategories]int64) {
	for i, bytes := range p.T.Allocated {
		if p.T.AliveAt(timeline.AllocationID(i), event) {
			held[p.Classes.Category[i]] += bytes
		}
	}
	return held
}

// project adds up what the weights, their gradients and their state take, and what is there
// besides when the optimizer steps.
func (p *Pass) project(o *timeline.OOM, held [classify.NumCategories]int64, s Shortage, basis string,
	missing ...report.Missing) *report.Projection {
	states := held[classify.Weights] + held[classify.Gradients] + held[classify.OptimizerState]
	needs := s.Need(o)
	for _, m := range missing {
		if m.Category == classify.Activations.String() { // beside what is there
			needs = max(needs, o.Active+m.Bytes)
		} else {
			states += m.Bytes
		}
	}
	x := &report.Projection{Basis: basis, Missing: missing, NeedsBytes: max(needs, states)}
	const most = 4096 // GPUs that are worth a word
	if rest := x.NeedsBytes - states; x.NeedsBytes > s.Usable && s.Usable > rest {
		if n := int((states + s.Usable - rest - 1) / (s.Usable - rest)); n <= most {
			x.FitsGPUs = &n
		}
	}
	return x
}

// Needs says how much a run would have needed, and of how much.
func Needs(x *report.Projection, usable int64) string {
	text := fmt.Sprintf("the run needs about %s, PyTorch could have %s", units.Size(x.NeedsBytes), units.Size(usable))
	if x.FitsGPUs != nil && *x.FitsGPUs > 1 {
		text += fmt.Sprintf("; sharded over %d such GPUs it fits", *x.FitsGPUs)
	}
	return text
}
