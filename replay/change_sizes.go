package replay

import (
	"fmt"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/timeline"
)

// weights are the sizes of a model's weights in requested bytes, with what
// they tell about its shapes.
type weights struct {
	sizes   map[int64]int // how often each occurs
	vector  int64         // bytes of a vector of the model's width, by far the most common small size
	element int64         // bytes of a number; 0 when it can't be told
	largest int64
}

// weights looks at what is classified as weights. A vector has width × element
// bytes, a square matrix width times as many: so the element can be told from
// which of the possible widths occurs as a number of rows.
func (r *rewriter) weights() weights {
	w := weights{sizes: map[int64]int{}}
	r.of(classify.Weights, func(id timeline.AllocationID) {
		n := r.Timeline.Requested(id)
		w.sizes[n]++
		w.largest = max(w.largest, n)
	})
	for n, count := range w.sizes {
		if n >= 128 && n <= 1<<17 && (count > w.sizes[w.vector] || count == w.sizes[w.vector] && n < w.vector) {
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

// vocabulary is the rows of the largest weight, as of an embedding; 0 when it
// is no multiple of the model's width.
func (w *weights) vocabulary() int64 {
	if w.vector == 0 || w.largest%w.vector != 0 || w.largest/w.vector < 4000 {
		return 0
	}
	return w.largest / w.vector
}

// moments calls f with every moment of the optimizer and the bytes of one of
// its numbers; it gives a sentence on how those were found.
func (r *rewriter) moments(f func(id timeline.AllocationID, element int64)) (string, error) {
	w := r.weights()
	element, how := w.element, "from the shapes of the weights"
	if element == 0 {
		element, how = 4, "as is usual"
	}
	n := 0
	r.of(classify.OptimizerState, func(id timeline.AllocationID) {
		switch r.classes.Detail[id] {
		case classify.MasterWeights, classify.StepCounter:
			return
		}
		bytes := r.Timeline.Requested(id)
		e := element
		if w.sizes[bytes] == 0 && w.sizes[bytes/2] > 0 {
			e = min(2*element, 4) // fp32 moments of low-precision weights
		}
		f(id, e)
		n++
	})
	if n == 0 {
		return "", fmt.Errorf("no optimizer state was found in the recording")
	}
	return fmt.Sprintf("%d bytes for each number of the optimizer's state, %s", element, how), nil
}

// The block-wise quantisation of bitsandbytes.
const (
	quantBlock = 256  // numbers that share one fp32 scale
	quantLeast = 4096 // smaller tensors stay in fp32
)

func (r *rewriter) eightBit() (string, error) {
	how, err := r.moments(func(id timeline.AllocationID, element int64) {
		n := r.bytes[id] / element
		if n >= quantLeast {
			r.resize(id, n+(n+quantBlock-1)/quantBlock*4)
		}
	})
	return "Moments take one byte and a 256th of a scale each, tensors below 4096 numbers stay as they are (" + how + "); what the step itself needs stays.", err
}

func (r *rewriter) plainSGD() (string, error) {
	_, err := r.moments(func(id timeline.AllocationID, _ int64) { r.resize(id, 0) })
	return "SGD without momentum keeps no moments; what the optimizer's step needs besides stays as recorded. Whether training goes as well is another question.", err
}

func (r *rewriter) lion() (string, error) {
	seen := map[int64]int{}
	var kept, dropped int
	_, err := r.moments(func(id timeline.AllocationID, _ int64) {
		bytes := r.Timeline.Requested(id)
		drop := r.classes.Detail[id] == classify.Moment2
		if r.classes.Detail[id] == classify.NoDetail {
			seen[bytes]++ // moments come in pairs of one size
			drop = seen[bytes]%2 == 0
		}
		if drop {
			r.resize(id, 0)
			dropped++
		} else {
			kept++
		}
	})
	if err == nil && dropped == 0 {
		err = fmt.Errorf("the optimizer keeps one moment already")
	}
	return "Lion keeps one moment where this optimizer keeps two; what the step itself needs stays as recorded.", err
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
			inModel := phase == classify.Forward || phase == classify.Backward || phase == classify.Generate || phase == classify.Data
			ofWeights := w.sizes[bytes] > 0 || w.sizes[bytes*2] > 0 || bytes%2 == 0 && w.sizes[bytes/2] > 0
			if inModel && !ofWeights && bytes >= batchLeast {
				scale(id)
			}
		}
	}
	if n == 0 {
		return "", fmt.Errorf("no activations, logits, inputs or caches were found in the recording")
	}
	return fmt.Sprintf("Activations, logits, inputs and caches are %g times as large, and so are temporaries of the forward and backward passes unless they have the size of a weight; the rest stays.", factor), nil
}
