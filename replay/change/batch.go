package change

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// batchLeast is the size from which on temporaries are taken as data; smaller
// ones are counters and scalars.
const batchLeast = 4096

func (r *rewriter) batch(factor float64) (string, error) { return r.tokens(factor, nil) }

// sequence scales what grows with the length: attention's scores grow with its square.
func (r *rewriter) sequence(factor float64) (string, error) {
	scores := r.scores()
	text, err := r.tokens(factor, scores)
	if len(scores) > 0 {
		text += " Attention's scores, told by the softmax that makes them, grow with the square of the length."
	}
	return text, err
}

// scores are the sizes of what a softmax of attention makes, and of copies in other types.
func (r *rewriter) scores() map[int64]bool {
	sizes, of := map[int64]bool{}, map[snapshot.StackID]bool{}
	for i, category := range r.classes.Category {
		id := timeline.AllocationID(i)
		if category != classify.Activations && category != classify.Temporary || r.Requested(id) < batchLeast {
			continue
		}
		stack := r.Stack(id)
		is, ok := of[stack]
		if !ok {
			for _, f := range r.Snapshot.Stack(stack) {
				name := strings.ToLower(r.Snapshot.String(r.Snapshot.Frames[f].Function))
				is = is || strings.Contains(name, "softmax") && !strings.Contains(strings.ReplaceAll(name, "_", ""), "logsoftmax")
			}
			of[stack] = is
		}
		if is {
			n := r.Requested(id)
			sizes[n], sizes[2*n], sizes[n/2] = true, true, true
		}
	}
	return sizes
}

// tokens scales what grows with the tokens of a batch, of some sizes with their square.
func (r *rewriter) tokens(factor float64, square map[int64]bool) (string, error) {
	w := r.weights()
	scale := func(id timeline.AllocationID) {
		part := factor
		if square[r.Requested(id)] {
			part *= factor
		}
		r.resize(id, max(1, int64(float64(r.Bytes[id])*part)))
	}
	n := 0
	for i, category := range r.classes.Category {
		id := timeline.AllocationID(i)
		bytes := r.Requested(id)
		switch category {
		case classify.Activations, classify.Logits, classify.KVCache, classify.Inputs:
			scale(id)
			n++
		case classify.Temporary, classify.Unknown:
			ofWeights := w.sizes[bytes] > 0 || w.sizes[bytes*2] > 0 || bytes%2 == 0 && w.sizes[bytes/2] > 0
			if bytes >= batchLeast && !ofWeights && r.inModel(id) {
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

// inModel reports whether an allocation is the model's work on a batch. What is older
// than the trace and goes away was the last step's.
func (r *rewriter) inModel(id timeline.AllocationID) bool {
	switch r.classes.Phase[id] {
	case classify.Forward, classify.Backward, classify.Generate, classify.Data:
		return true
	}
	return r.BornAt(id) < 0 && r.FreedAt(id) < r.events()
}
