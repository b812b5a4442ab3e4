package compare

import (
	"slices"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/budget/modelfile"
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// observed is a recording, looked at with a model in mind.
type observed struct {
	t       *timeline.Timeline
	c       *classify.Classification
	v       *frames.View
	config  *budget.Config
	tensors []modelfile.Tensor

	parameters int64
	ranks      int64 // that share each tensor, 0: none
	training   bool
	// it fails before its first backward pass comes to a layer, and has kept little more than a tensor of each
	inputsOnly bool
	step       *classify.Step // the one that is compared, nil: none is whole
	first      bool           // it is the first, which begins without an optimizer's state
	signs      sign
	optimizers map[string]bool           // whose files are on stacks, by their names
	libraries  map[string]bool           // whose trainings are
	masking    map[snapshot.StackID]bool // that make attention's masks
}

func observe(t *timeline.Timeline, c *classify.Classification, v *frames.View, theory Theory) (*observed, error) {
	o := &observed{t: t, c: c, v: v, config: theory.Config}
	var err error
	if o.tensors, err = budget.Tensors(theory.Config); err != nil {
		return nil, err
	}
	counts, err := budget.Count(theory.Config)
	if err != nil {
		return nil, err
	}
	o.parameters = counts.Total
	layers := int(o.config.Int("num_hidden_layers"))
	kept := o.keptAtFailure()
	keeps := layers > 0 && kept >= max(4, layers/2)
	o.training = o.has(classify.Backward) || keeps
	o.inputsOnly = keeps && kept <= 3*layers && !o.workedBackward()
	if o.training {
		o.step = o.fullestStep()
	}
	o.readStacks()
	return o, nil
}

// keptAtFailure counts the activations that are there when the first request fails:
// without a graph that keeps them there would be a few.
func (o *observed) keptAtFailure() (n int) {
	if len(o.t.OOMs) == 0 {
		return 0
	}
	for i, category := range o.c.Category {
		if id := timeline.AllocationID(i); category == classify.Activations && o.t.Requested(id) >= 1<<16 &&
			o.t.AliveAt(id, o.t.OOMs[0].Event) {
			n++
		}
	}
	return n
}

// workedBackward reports whether a backward pass went through any layer. Where stacks
// name checkpointing, none that began is asked how far it came.
func (o *observed) workedBackward() bool {
	return o.has(classify.Backward) && (o.v.Recorded(o.t.Device) != "none" || slices.Contains(o.c.Category, classify.Gradients))
}

// fullestStep is the whole step with the highest peak. The first one may have been
// cut off, or makes the optimizer's state: it counts only when there is no other.
func (o *observed) fullestStep() *classify.Step {
	var best *classify.Step
	steps := o.c.Steps
	for i := range steps {
		s := &steps[i]
		if !hasPhase(s, classify.Forward) || !hasPhase(s, classify.Backward) || o.failedIn(s) {
			continue
		}
		if best == nil || best == &steps[0] || s.PeakAllocated > best.PeakAllocated {
			best = s
		}
	}
	o.first = best != nil && o.makesState(best)
	return best
}

// makesState reports whether a step allocates the optimizer's state.
func (o *observed) makesState(s *classify.Step) bool {
	for i, category := range o.c.Category {
		if born := o.t.BornAt(timeline.AllocationID(i)); category == classify.OptimizerState && s.FirstEvent <= born &&
			born <= s.LastEvent && o.c.Detail[i] != classify.StepCounter {
			return true
		}
	}
	return false
}

// failedIn reports whether a request could not be met in a step.
func (o *observed) failedIn(s *classify.Step) bool {
	return slices.ContainsFunc(o.t.OOMs, func(x timeline.OOM) bool { return s.FirstEvent <= x.Event && x.Event <= s.LastEvent+1 })
}

func hasPhase(s *classify.Step, phase classify.Phase) bool {
	return slices.ContainsFunc(s.Phases, func(p classify.PhaseSpan) bool { return p.Phase == phase })
}

// has reports whether any step has a phase.
func (o *observed) has(phase classify.Phase) bool {
	return slices.ContainsFunc(o.c.Steps, func(s classify.Step) bool { return hasPhase(&s, phase) })
}

// compared are the events that the setting is read from: those of the step that
// is compared, of the last step where none is whole, else of everything.
func (o *observed) compared() (first, last int) {
	switch n := len(o.c.Steps); {
	case o.step != nil:
		return o.step.FirstEvent, o.step.LastEvent
	case o.training && n > 0:
		return o.c.Steps[n-1].FirstEvent, len(o.t.Of) - 1
	}
	return timeline.NoEvent, len(o.t.Of) - 1
}

// within calls f for the allocations born in the events that are looked at.
func (o *observed) within(f func(id timeline.AllocationID)) {
	first, last := o.compared()
	for id, end := o.t.BornSince(first), o.t.BornSince(last+1); id < end; id++ {
		f(id)
	}
}
