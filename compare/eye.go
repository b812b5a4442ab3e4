package compare

import (
	"slices"
	"strings"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// eye looks at a recording with a model in mind.
type eye struct {
	t       *timeline.Timeline
	c       *classify.Classification
	v       *frames.View
	config  *budget.Config
	tensors []budget.Tensor

	parameters int64
	training   bool
	// it fails before its first backward pass comes to a layer, and has kept little more than a tensor of each
	inputsOnly bool
	step       *classify.Step // the one that is compared, nil: none is whole
	first      bool           // it is the first, which begins without an optimizer's state
	signs      signs
}

func newEye(t *timeline.Timeline, c *classify.Classification, v *frames.View, theory Theory) (*eye, error) {
	e := &eye{t: t, c: c, v: v, config: theory.Config}
	var err error
	if e.tensors, err = budget.Tensors(theory.Config); err != nil {
		return nil, err
	}
	counts, err := budget.Count(theory.Config)
	if err != nil {
		return nil, err
	}
	e.parameters = counts.Total
	layers := int(e.config.Int("num_hidden_layers"))
	kept := e.keptAtFailure()
	keeps := layers > 0 && kept >= max(4, layers/2)
	e.training = e.has(classify.Backward) || keeps
	e.inputsOnly = keeps && kept <= 3*layers && !e.workedBackward()
	if e.training {
		e.step = e.fullestStep()
	}
	e.signs = e.read()
	return e, nil
}

// keptAtFailure counts the activations that are there when the first request fails:
// without a graph that keeps them there would be a few.
func (e *eye) keptAtFailure() (n int) {
	if len(e.t.OOMs) == 0 {
		return 0
	}
	for i, category := range e.c.Category {
		if id := timeline.AllocationID(i); category == classify.Activations && e.t.Requested(id) >= 1<<16 &&
			e.t.AliveAt(id, e.t.OOMs[0].Event) {
			n++
		}
	}
	return n
}

// workedBackward tells whether a backward pass went through any layer. Where stacks
// name checkpointing, none that began is asked how far it came.
func (e *eye) workedBackward() bool {
	return e.has(classify.Backward) && (e.v.Recorded(e.t.Device) != "none" || slices.Contains(e.c.Category, classify.Gradients))
}

// fullestStep is the whole step with the highest peak. The first one may have been
// cut off, or makes the optimizer's state: it counts only when there is no other.
func (e *eye) fullestStep() *classify.Step {
	var best *classify.Step
	steps := e.c.Steps
	for i := range steps {
		s := &steps[i]
		if !hasPhase(s, classify.Forward) || !hasPhase(s, classify.Backward) || e.failedIn(s) {
			continue
		}
		if best == nil || best == &steps[0] || s.PeakAllocated > best.PeakAllocated {
			best = s
		}
	}
	e.first = best != nil && e.makesState(best)
	return best
}

// makesState tells whether a step allocates the optimizer's state.
func (e *eye) makesState(s *classify.Step) bool {
	for i, category := range e.c.Category {
		if born := e.t.BornAt(timeline.AllocationID(i)); category == classify.OptimizerState && s.FirstEvent <= born &&
			born <= s.LastEvent && e.c.Detail[i] != classify.StepCounter {
			return true
		}
	}
	return false
}

// failedIn tells whether a request could not be met in a step.
func (e *eye) failedIn(s *classify.Step) bool {
	for _, o := range e.t.OOMs {
		if o.Event >= s.FirstEvent && o.Event <= s.LastEvent+1 {
			return true
		}
	}
	return false
}

func hasPhase(s *classify.Step, phase classify.Phase) bool {
	return slices.ContainsFunc(s.Phases, func(p classify.PhaseSpan) bool { return p.Phase == phase })
}

// has tells whether any step has a phase.
func (e *eye) has(phase classify.Phase) bool {
	for i := range e.c.Steps {
		if hasPhase(&e.c.Steps[i], phase) {
			return true
		}
	}
	return false
}

// looked are the events that the setting is read from: those of the step that
// is compared, of the last step where none is whole, else of everything.
func (e *eye) looked() (first, last int) {
	switch n := len(e.c.Steps); {
	case e.step != nil:
		return e.step.FirstEvent, e.step.LastEvent
	case e.training && n > 0:
		return e.c.Steps[n-1].FirstEvent, len(e.t.Of) - 1
	}
	return timeline.NoEvent, len(e.t.Of) - 1
}

// within calls f for the allocations born in the events that are looked at.
func (e *eye) within(f func(id timeline.AllocationID)) {
	first, last := e.looked()
	for id := range timeline.AllocationID(e.t.Len()) {
		if born := e.t.BornAt(id); first <= born && born <= last {
			f(id)
		}
	}
}

// signs are what the stacks of a step say about how it was made.
type signs struct {
	stacks     bool // there are any, with Python lines
	compiled   bool // torch.compile
	converted  bool // Accelerate's conversion of outputs to float32
	masked     bool // an attention mask is written out
	scaler     bool // a GradScaler
	checkpoint bool
	eager      bool // attention writes its scores out
	dropout    bool
	library    bool // the loss is computed in Transformers
	direct     bool // the loss is computed outside it
	liger      bool // by a fused kernel
	loop       bool // the optimizer goes through its parameters one by one
	foreach    bool // the optimizer takes all parameters at once
	optimizers map[string]bool
}

// read looks through the stacks of the events that are looked at, each once.
func (e *eye) read() signs {
	s := signs{optimizers: map[string]bool{}}
	seen := map[snapshot.StackID]bool{}
	e.within(func(id timeline.AllocationID) { e.readStack(&s, seen, id) })
	for i, category := range e.c.Category { // made in the first step
		if category == classify.OptimizerState {
			e.readStack(&s, seen, timeline.AllocationID(i))
		}
	}
	return s
}

func (e *eye) readStack(s *signs, seen map[snapshot.StackID]bool, id timeline.AllocationID) {
	stack := e.t.Stack(id)
	if stack == 0 || seen[stack] {
		return
	}
	seen[stack] = true
	loss, library := false, false
	for _, f := range e.t.Snapshot.Stack(stack) {
		l := e.v.Line(f)
		file := strings.ReplaceAll(l.File, `\`, "/")
		s.stacks = s.stacks || strings.HasSuffix(file, ".py")
		library = library || strings.Contains(file, "transformers/")
		switch {
		case strings.Contains(file, "torch/_inductor/"):
			s.compiled = true
		case strings.HasSuffix(file, "accelerate/utils/operations.py") && strings.Contains(l.Function, "convert_to_fp32"):
			s.converted = true
		case l.Function == "sdpa_mask" || strings.HasPrefix(l.Function, "_prepare_4d_"), strings.Contains(l.Function,
			"convert_boolean_attn_mask"):
			s.masked = true
		case l.Function == "_unscale_grads_": // a disabled scaler does not come here
			s.scaler = true
		case strings.HasSuffix(file, "torch/utils/checkpoint.py"):
			s.checkpoint = true
		case l.Function == "eager_attention_forward":
			s.eager = true
		case strings.Contains(file, "liger_kernel/") && strings.Contains(file, "cross_entropy"):
			s.liger = true
		case l.Function == "cross_entropy":
			loss = true
		case l.Function == "dropout" || strings.Contains(l.Function, "native_dropout"):
			s.dropout = true
		case strings.HasPrefix(l.Function, "_single_tensor_"):
			s.loop = true
		case strings.HasPrefix(l.Function, "_multi_tensor_"):
			s.foreach = true
		}
		if e.c.Category[id] == classify.OptimizerState || e.c.Phase[id] == classify.Optimizer {
			for _, o := range optimizerFiles {
				if strings.Contains(file, o.file) {
					s.optimizers[o.name] = true
				}
			}
		}
	}
	s.library = s.library || loss && library
	s.direct = s.direct || loss && !library
}
