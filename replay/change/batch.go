package change

import (
	"fmt"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/timeline"
)

// batchLeast is the size from which on temporaries are taken as data; smaller
// ones are counters and scalars.
const batchLeast = 4096

func (r *rewriter) batch(factor float64) (string, error) {
	w := r.weights()
	scale := func(id timeline.AllocationID) { r.resize(id, max(1, int64(float64(r.Bytes[id])*factor))) }
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
