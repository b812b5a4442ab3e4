package change

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/replay/passes"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// moments are what an optimizer keeps for each weight.
type moments struct {
	ids     map[int64][]timeline.AllocationID // by size in bytes
	bytes   int64
	trained int64 // bytes of the weights that have moments of their own size, or of twice as much
	element int64 // bytes of a scalar
	how     string

	factored bool // Adafactor's: rows and columns, not one for each scalar
	small    bool // made by a library whose optimizers keep few bits or a low rank
	second   bool // some are known as second moments
}

// moments finds the moments of the optimizer and tells how they were found.
func (r *rewriter) moments() (*moments, error) {
	w := r.weights()
	m := &moments{ids: map[int64][]timeline.AllocationID{}, element: w.element, how: "from the shapes of the weights"}
	copies := passes.Copies(r.classes)
	r.of(classify.OptimizerState, func(id timeline.AllocationID) {
		switch r.classes.Detail[id] {
		case classify.StepCounter:
			return
		case classify.Moment2:
			m.second = true
		}
		if copies[id] || r.castFrom(id) {
			return
		}
		n := r.Requested(id)
		m.ids[n] = append(m.ids[n], id)
		m.bytes += n
		m.small = m.small || r.madeIn(id, "bitsandbytes/", "torchao/", "galore_torch/", "apollo_torch/")
	})
	if err := m.beyond(&w); err != nil {
		return nil, err
	}
	largest := slices.Max(slices.Collect(maps.Keys(m.ids)))
	r.of(classify.Gradients, func(id timeline.AllocationID) {
		m.factored = m.factored || r.Requested(id) > 8*largest
	})
	var half int64 // weights whose moments are twice as wide
	for n, count := range w.sizes {
		if len(m.ids[n]) > 0 {
			m.trained += n * int64(count)
		} else if len(m.ids[2*n]) > 0 {
			half += n * int64(count)
		}
	}
	m.factored = m.factored && 5*(m.trained+half) < m.bytes // gradients of what has no moments may be larger
	switch m.trained += half; {
	case m.element == 0:
		m.element, m.how = 4, "as is usual"
	case m.trained*10 < w.bytes():
		m.element, m.how = 4, "as adapters have it"
	case 2*half > m.trained:
		m.element = min(2*m.element, 4)
	}
	return m, nil
}

// beyond tells why there are no moments: no state, or more of it than the weights can have.
func (m *moments) beyond(w *weights) error {
	if len(m.ids) == 0 {
		return fmt.Errorf("no optimizer state was found in the recording")
	}
	all := w.bytes()
	if all > 0 && m.bytes > passes.MostKept*int64(4/min(max(w.element, 1), 4))*all {
		return fmt.Errorf("the optimizer keeps more than a few moments for each of the weights' scalars: matrices of its own")
	}
	return nil
}

// castFrom reports whether state is a copy of weights in another type: it was made by a
// conversion, and no moment is.
func (r *rewriter) castFrom(id timeline.AllocationID) bool {
	for _, f := range r.Snapshot.Stack(r.Stack(id)) {
		if name := r.Snapshot.String(r.Snapshot.Frames[f].Function); strings.Contains(name, "_to_copy") {
			return true
		}
	}
	return false
}

// each calls f for every moment.
func (m *moments) each(f func(id timeline.AllocationID)) {
	for _, ids := range m.ids {
		for _, id := range ids {
			f(id)
		}
	}
}

// noLists takes away the lists of temporaries, as large as the weights, that an
// optimizer step for many tensors at once makes. It tells whose stacks they had.
func (r *rewriter) noLists() map[snapshot.StackID]bool {
	w := r.weights()
	made := map[snapshot.StackID]bool{}
	r.of(classify.Temporary, func(id timeline.AllocationID) {
		if n := r.Requested(id); r.classes.Phase[id] == classify.Optimizer && (w.sizes[n] > 0 || w.sizes[n/2] > 0) {
			r.resize(id, 0)
			made[r.Stack(id)] = true
		}
	})
	return made
}

// FusedOptimizer is the class of torch.optim whose step of a kind, as the name of
// its function for many tensors says it, can be one kernel; "" for other kinds.
func FusedOptimizer(kind string) string {
	return map[string]string{"adam": "AdamW", "adamw": "AdamW", "sgd": "SGD", "adagrad": "Adagrad"}[kind]
}

// fusedStep is torch's step in one kernel, of the optimizers that have one.
func (r *rewriter) fusedStep() (string, error) {
	if m, err := r.moments(); err == nil && m.factored {
		return "", fmt.Errorf("no fused step is there for an optimizer with a row and a column for each matrix")
	}
	made := r.noLists()
	if len(made) == 0 {
		return "", fmt.Errorf("the optimizer's step makes no lists of temporaries")
	}
	s := r.Snapshot
	known := made[0]
	for stack := range made {
		for _, f := range s.Stack(stack) {
			if kind, ok := strings.CutPrefix(s.String(s.Frames[f].Function), "_multi_tensor_"); ok && FusedOptimizer(kind) != "" {
				known = true
			}
		}
	}
	if !known {
		return "", fmt.Errorf("no step of Adam, AdamW, SGD or Adagrad for many tensors at once is on the stacks")
	}
	return "The optimizer is given fused=True: one kernel updates the weights and needs no lists of temporaries.", nil
}

// The block-wise quantisation of bitsandbytes.
const (
	quantBlock = 256  // scalars that share one fp32 scale
	quantLeast = 4096 // smaller tensors stay in fp32
)

func (r *rewriter) eightBit() (string, error) {
	m, err := r.moments()
	if err != nil {
		return "", err
	}
	if m.factored {
		return "", fmt.Errorf("the optimizer's state is small already, %s in all: a row and a column for each matrix",
			units.Bytes(m.bytes))
	}
	if m.small {
		return "", fmt.Errorf("the optimizer's state is small already, %s in all: moments of few bits or of a low rank",
			units.Bytes(m.bytes))
	}
	wide, text := r.overridden(m), ""
	if len(wide) > 0 {
		text = ", and so do those of the embeddings, in 4 bytes, as Transformers' Trainer has bitsandbytes do it"
	}
	m.each(func(id timeline.AllocationID) {
		switch n := r.Requested(id) / m.element; {
		case wide[id]:
			r.resize(id, 4*n)
		case n >= quantLeast:
			r.resize(id, n+(n+quantBlock-1)/quantBlock*4)
		}
	})
	r.noLists()
	return fmt.Sprintf("Moments take one byte and a 256th of a scale each, tensors below 4096 numbers stay as they are%s (%d "+
		"bytes for each number as recorded, %s); the step needs no temporaries.", text, m.element, m.how), nil
}

// StateLeft is the part that a change of the optimizer leaves of the state that a first step has yet to make, copies of the
// weights among it; -1: nobody knows.
func StateLeft(name string, x passes.PerGradient, c *classify.Classification) float64 {
	element := 4.0
	if w := (&rewriter{Timeline: c.Timeline, classes: c}).weights(); x.Width == 1 && w.element > 0 {
		element = float64(w.element)
	}
	left, known := map[string]float64{"optimizer=8bit": (1 + 4.0/quantBlock) / element, "optimizer=lion": 0.5,
		"optimizer=sgd": 0, "optimizer=fused": 1}[name]
	switch {
	case !known:
		return -1
	case x.Copied():
		return (1 + left*float64(x.Tensors-1)) / float64(x.Tensors)
	}
	return left
}

// overridden are the moments that bitsandbytes keeps in 32 bits for Transformers' Trainer
// (its get_optimizer overrides nn.Embedding): those of the vocabulary's vectors, which come
// before a head of their size.
func (r *rewriter) overridden(m *moments) map[timeline.AllocationID]bool {
	w := r.weights()
	if w.vocabulary() == 0 || !r.trainer() {
		return nil
	}
	wide := map[timeline.AllocationID]bool{}
	for _, size := range []int64{w.embedding, 2 * w.embedding} { // wider where moments are
		ids := slices.Sorted(slices.Values(m.ids[size]))
		for _, id := range ids[:min(len(ids), momentsOfOne)] {
			wide[id] = true
		}
	}
	return wide
}

// momentsOfOne is how many an optimizer keeps of one weight, of those that have 8 bits.
const momentsOfOne = 2

// trainer reports whether Transformers' Trainer takes the steps.
func (r *rewriter) trainer() (found bool) {
	r.of(classify.OptimizerState, func(id timeline.AllocationID) {
		found = found || r.madeIn(id, "transformers/trainer.py")
	})
	return found
}

// madeIn reports whether an allocation was made below a file whose path has one of some parts.
func (r *rewriter) madeIn(id timeline.AllocationID, parts ...string) bool {
	for _, f := range r.Snapshot.Stack(r.Stack(id)) {
		file := strings.ReplaceAll(r.Snapshot.String(r.Snapshot.Frames[f].File), `\`, "/")
		if slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(file, part) }) {
			return true
		}
	}
	return false
}

func (r *rewriter) plainSGD() (string, error) {
	m, err := r.moments()
	if err != nil {
		return "", err
	}
	m.each(func(id timeline.AllocationID) { r.resize(id, 0) })
	r.noLists()
	return "SGD without momentum keeps no moments and needs no temporaries. Whether training goes as well is another question.",
		nil
}

func (r *rewriter) lion() (string, error) {
	m, err := r.moments()
	if err != nil {
		return "", err
	}
	switch {
	case m.factored:
		return "", fmt.Errorf("the optimizer keeps a row and a column for each matrix, %s in all: Lion's moment would be more",
			units.Bytes(m.bytes))
	case m.small:
		return "", fmt.Errorf("the optimizer keeps moments of few bits or of a low rank, %s in all: Lion's moment would be more",
			units.Bytes(m.bytes))
	case len(r.OOMs) > 0 && passes.FirstState(r.classes, &r.OOMs[0]).ToCome > 0:
		return "", fmt.Errorf("the optimizer's first step failed before all of its state was there")
	case !m.second && m.bytes*2 < m.trained*3: // one moment has as many bytes as the weights, two have twice as many
		return "", fmt.Errorf("the optimizer keeps one moment already")
	}
	var largest int64
	for n, ids := range m.ids {
		largest = max(largest, n)
		// Moments come in pairs of one size: the second ones go, as far as it is
		// known which those are.
		slices.SortStableFunc(ids, func(a, b timeline.AllocationID) int {
			return int(r.classes.Detail[a]) - int(r.classes.Detail[b])
		})
		for _, id := range ids[(len(ids)+1)/2:] {
			r.resize(id, 0)
		}
	}
	r.noLists()
	for i := range r.classes.Steps {
		if first, _, ok := phaseOf(&r.classes.Steps[i], classify.Optimizer); ok {
			r.extra(2*largest, first, first)
		}
	}
	return "Lion keeps one moment where this optimizer keeps two; its step works on one tensor at a time, with two temporaries.",
		nil
}
