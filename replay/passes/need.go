package passes

import (
	"fmt"
	"slices"
	"sort"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/timeline"
)

// Need is what a run that failed needed altogether, as far as it can be told.
type Need struct {
	Bytes   int64 // at the least, of all that was to come
	Basis   string
	Missing []Missing
	States  int64 // of Bytes: weights, gradients and optimizer state, which more GPUs could share
}

// Missing is what of a category was still to come, in bytes.
type Missing struct {
	Category classify.Category
	Bytes    int64
}

// ToCome is what a run that failed had yet to allocate.
type ToCome struct {
	Bytes int64   // at a time, in the phase at work, the request that failed included; 0: not known
	Times float64 // how large the batch is against that of the step that Bytes is told by; 0: by none
	State State   // in an optimizer's first step
	// Where Bytes isn't known, of a first pass: what its other layers save, the request included; two moments of the gradients
	// that are there; and gradients and moments if all weights are trained.
	Layers, Moments, Likely int64
}

// Estimated reports whether Bytes is told by a step of a smaller batch.
func (x *ToCome) Estimated() bool { return x.Times > 1.25 }

// InOptimizer reports whether Bytes is what an optimizer's first step has yet to make.
func (x *ToCome) InOptimizer() bool { return x.State.ToCome+x.State.Lists > 0 }

// After tells what was still to come when a request failed; steps: also by the steps before, which takes longest.
func After(c *classify.Classification, oom *timeline.OOM, steps bool) (x ToCome) {
	x.State = FirstState(c, oom)
	if x.InOptimizer() {
		x.Bytes = x.State.ToCome + x.State.Lists
		return x
	}
	if !steps {
		return x
	}
	if x.Bytes, x.Times = RestOfStep(c, oom); x.Bytes > 0 {
		return x
	}
	_, _, x.Layers = LayersToCome(c, oom)
	if held := heldAt(c, oom.Event); held[classify.OptimizerState] == 0 {
		x.Moments = 2 * held[classify.Gradients]
		if In(c, classify.Backward, oom.Event) && !Guessed(c, classify.Weights) {
			x.Likely = max(0, 3*held[classify.Weights]-held[classify.Gradients])
		}
	}
	return x
}

// In reports whether an event lies in a phase.
func In(c *classify.Classification, phase classify.Phase, event int) bool {
	has := func(p classify.PhaseSpan) bool {
		return p.Phase == phase && p.FirstEvent <= event && event <= p.LastEvent
	}
	k := sort.Search(len(c.Steps), func(k int) bool { return c.Steps[k].FirstEvent > event })
	return slices.ContainsFunc(c.Before, has) || k > 0 && slices.ContainsFunc(c.Steps[k-1].Phases, has)
}

// Whole tells what a run needed altogether of which a request failed; nil where nothing shows more than that.
func Whole(c *classify.Classification, oom *timeline.OOM, x ToCome) *Need {
	held := heldAt(c, oom.Event)
	n := &Need{Bytes: oom.Active + max(oom.Requested, x.Bytes)}
	done, layers, bytes := LayersToCome(c, oom)
	switch w := held[classify.Weights]; {
	case x.InOptimizer() && x.Bytes > oom.Requested:
		n.Basis = "by the sizes of the weights' state"
		if x.State.ToCome > 0 {
			n.Basis = fmt.Sprintf("%d of %d parameters have state", x.State.Made, x.State.Of)
		}
		if x.State.Maybe > 0 {
			n.Basis += "; what the step makes besides isn't counted"
		}
		n.Missing = slices.DeleteFunc([]Missing{{classify.OptimizerState, x.State.ToCome}, {classify.Temporary, x.State.Lists}},
			func(m Missing) bool { return m.Bytes == 0 })
	case x.Bytes > oom.Requested:
		n.Basis = "by the step before"
		return n
	case In(c, classify.Forward, oom.Event) && bytes > oom.Requested:
		n.Basis = fmt.Sprintf("%d of %d layers are through; what follows them isn't counted", done, layers)
		n.Missing = []Missing{{classify.Activations, bytes}}
	case In(c, classify.Backward, oom.Event) && held[classify.OptimizerState] == 0 && w > 0 && !Guessed(c, classify.Weights):
		// In a first backward pass nothing shows yet which weights are trained.
		n.Basis = "if all weights are trained, with two moments each"
		if rest := w - held[classify.Gradients]; rest > 0 {
			n.Missing = append(n.Missing, Missing{classify.Gradients, rest})
		}
		n.Missing = append(n.Missing, Missing{classify.OptimizerState, 2 * w})
	default:
		return nil
	}
	n.States = held[classify.Weights] + held[classify.Gradients] + held[classify.OptimizerState]
	for _, m := range n.Missing {
		if m.Category == classify.Activations { // beside what is there
			n.Bytes = max(n.Bytes, oom.Active+m.Bytes)
		} else {
			n.States += m.Bytes
		}
	}
	n.Bytes = max(n.Bytes, n.States)
	return n
}

// heldAt is what is allocated after an event, by category.
func heldAt(c *classify.Classification, event int) (held [classify.NumCategories]int64) {
	for i, bytes := range c.Timeline.Allocated {
		if c.Timeline.AliveAt(timeline.AllocationID(i), event) {
			held[c.Category[i]] += bytes
		}
	}
	return held
}

// Guessed reports whether most of a category at the peak is called so for want of anything that speaks for another.
func Guessed(c *classify.Classification, category classify.Category) bool {
	var doubtful, all int64
	for i, bytes := range c.Timeline.Allocated {
		if c.Category[i] == category && c.Timeline.AliveAt(timeline.AllocationID(i), c.Timeline.Peaks.Allocated.Event) {
			all += bytes
			if c.Confidence[i] < classify.Plausible {
				doubtful += bytes
			}
		}
	}
	return doubtful*2 > all
}

// StepsAfter counts the steps that a program made after an event without a failure: those that begin later, and the one
// that it was in, where an optimizer's step of it came later.
func StepsAfter(c *classify.Classification, event int) int {
	n, again := 0, 0
	if failed := c.Timeline.OOMs; len(failed) > 0 && failed[len(failed)-1].Event > event {
		return 0
	}
	for _, s := range c.Steps {
		if s.FirstEvent > event {
			n++
		} else if slices.ContainsFunc(s.Phases, func(p classify.PhaseSpan) bool {
			return p.Phase == classify.Optimizer && p.FirstEvent > event
		}) {
			again = 1
		}
	}
	if n == 0 {
		return 0
	}
	return n + again
}
