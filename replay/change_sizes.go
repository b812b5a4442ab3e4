package replay

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// weights are the sizes of a model's weights in requested bytes, with what
// they tell about its shapes.
type weights struct {
	sizes     map[int64]int // how often each occurs
	vector    int64         // bytes of a vector of the model's width, by far the most common small size
	element   int64         // bytes of a number; 0 when it can't be told
	embedding int64         // bytes of the largest matrix that few have: embedding and head; 0: none
}

// weights looks at what is classified as weights. A vector has width × element
// bytes, a square matrix width times as many: so the element can be told from
// which of the possible widths occurs as a number of rows.
func (r *rewriter) weights() weights {
	w := weights{sizes: map[int64]int{}}
	there := map[int64]int{} // at the peak: not what was cast meanwhile
	r.of(classify.Weights, func(id timeline.AllocationID) {
		n := r.Timeline.Requested(id)
		w.sizes[n]++
		if r.Timeline.AliveAt(id, r.Timeline.Peaks.Allocated.Event) {
			there[n]++
		}
	})
	if len(there) > 0 {
		w.sizes = there
	}
	for n, count := range w.sizes {
		if count <= mostHeads {
			w.embedding = max(w.embedding, n)
		}
	}
	for n, count := range w.sizes {
		if n < 128 || n > 1<<17 {
			continue
		}
		// An adapter's matrices may be more than there are vectors; no embedding
		// has so few rows of them.
		a, b := weights{embedding: w.embedding, vector: n}, weights{embedding: w.embedding, vector: w.vector}
		better := a.vocabulary() > 0
		if better == (b.vocabulary() > 0) {
			better = count > w.sizes[w.vector] || count == w.sizes[w.vector] && n < w.vector
		}
		if better {
			w.vector = n
		}
	}
	if w.vector == 0 {
		return w
	}
	votes := map[int64]int{}
	for n, count := range w.sizes {
		for _, e := range []int64{2, 4} {
			if n == w.vector*(w.vector/e) {
				votes[e] += count
			}
		}
	}
	switch {
	case votes[2] > votes[4]:
		w.element = 2
	case votes[4] > votes[2]:
		w.element = 4
	}
	return w
}

// mostHeads is how often a size of embedding and head occurs at most: with two
// of them, and a copy of each such as an EMA keeps. Matrices of layers occur
// more often.
const mostHeads = 4

// vocabulary is the rows of embedding and head; 0 when it is no
// multiple of the model's width.
func (w *weights) vocabulary() int64 {
	if w.vector == 0 || w.embedding%w.vector != 0 || w.embedding/w.vector < 4000 {
		return 0
	}
	return w.embedding / w.vector
}

// moments are what an optimizer keeps for each weight.
type moments struct {
	ids     map[int64][]timeline.AllocationID // by size in bytes
	bytes   int64
	trained int64 // bytes of the weights that have moments of their own size, or of twice as much
	element int64 // bytes of a number
	how     string

	factored bool // Adafactor's: rows and columns, not one for each number
	second   bool // some are known as second moments
}

// moments finds the moments of the optimizer and tells how they were found.
func (r *rewriter) moments() (*moments, error) {
	w := r.weights()
	m := &moments{ids: map[int64][]timeline.AllocationID{}, element: w.element, how: "from the shapes of the weights"}
	r.of(classify.OptimizerState, func(id timeline.AllocationID) {
		switch r.classes.Detail[id] {
		case classify.MasterWeights, classify.StepCounter:
			return
		case classify.Moment2:
			m.second = true
		}
		n := r.Timeline.Requested(id)
		m.ids[n] = append(m.ids[n], id)
		m.bytes += n
	})
	if len(m.ids) == 0 {
		return nil, fmt.Errorf("no optimizer state was found in the recording")
	}
	largest := slices.Max(slices.Collect(maps.Keys(m.ids)))
	r.of(classify.Gradients, func(id timeline.AllocationID) {
		m.factored = m.factored || r.Timeline.Requested(id) > 8*largest
	})
	var all, half int64 // weights, and those whose moments are twice as wide
	for n, count := range w.sizes {
		all += n * int64(count)
		if len(m.ids[n]) > 0 {
			m.trained += n * int64(count)
		} else if len(m.ids[2*n]) > 0 {
			half += n * int64(count)
		}
	}
	switch m.trained += half; {
	case m.element == 0:
		m.element, m.how = 4, "as is usual"
	case m.trained*10 < all:
		m.element, m.how = 4, "as adapters have it"
	case 2*half > m.trained:
		m.element = min(2*m.element, 4)
	}
	return m, nil
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
		if n := r.Timeline.Requested(id); r.classes.Phase[id] == classify.Optimizer && (w.sizes[n] > 0 || w.sizes[n/2] > 0) {
			r.resize(id, 0)
			made[r.Timeline.Stack(id)] = true
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
	s := r.Timeline.Snapshot
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
	quantBlock = 256  // numbers that share one fp32 scale
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
	m.each(func(id timeline.AllocationID) {
		if n := r.bytes[id] / m.element; n >= quantLeast {
			r.resize(id, n+(n+quantBlock-1)/quantBlock*4)
		}
	})
	r.noLists()
	return fmt.Sprintf("Moments take one byte and a 256th of a scale each, tensors below 4096 numbers stay as they are (%d "+
		"bytes for each number as recorded, %s); the step needs no temporaries.", m.element, m.how), nil
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
	case len(r.Timeline.OOMs) > 0 && StillToCome(r.classes, &r.Timeline.OOMs[0]) > 0:
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

// batchLeast is the size from which on temporaries are taken as data; smaller
// ones are counters and scalars.
const batchLeast = 4096

func (r *rewriter) batch(factor float64) (string, error) {
	w := r.weights()
	scale := func(id timeline.AllocationID) {
		r.resize(id, max(1, int64(float64(r.bytes[id])*factor)))
	}
	n := 0
	for i, category := range r.classes.Category {
		id := timeline.AllocationID(i)
		bytes := r.Timeline.Requested(id)
		switch category {
		case classify.Activations, classify.Logits, classify.KVCache, classify.Inputs:
			scale(id)
			n++
		case classify.Temporary, classify.Unknown:
			phase := r.classes.Phase[id]
			inModel := phase == classify.Forward || phase == classify.Backward || phase == classify.Generate ||
				phase == classify.Data
			// What is older than the trace and goes away was the last step's.
			inModel = inModel || r.Timeline.BornAt(id) < 0 && r.Timeline.FreedAt(id) < r.Timeline.Device.Events.Len()
			ofWeights := w.sizes[bytes] > 0 || w.sizes[bytes*2] > 0 || bytes%2 == 0 && w.sizes[bytes/2] > 0
			if inModel && !ofWeights && bytes >= batchLeast {
				scale(id)
			}
		}
	}
	if n == 0 {
		return "", fmt.Errorf("no activations, logits, inputs or caches were found in the recording")
	}
	return fmt.Sprintf("Activations, logits, inputs and caches are %g times as large, and so are temporaries of the forward "+
		"and backward passes unless they have the size of a weight; the rest stays.", factor), nil
}
