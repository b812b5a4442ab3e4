package change

import (
	"fmt"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/replay/passes"
	"github.com/vramscope/vramscope/timeline"
)

// bfloat16 holds weights in 16 bits, and with them gradients and the optimizer's state: float32 ones take half. What a batch
// makes stays as recorded, so that what is left is an upper bound.
func (r *rewriter) bfloat16() (string, error) {
	w := r.weights()
	copied := map[int64]bool{} // sizes of weights that autocast has a copy of
	r.of(classify.AutocastCopies, func(id timeline.AllocationID) { copied[2*r.Requested(id)] = true })
	how := "as their shapes say"
	switch {
	case len(w.sizes) == 0:
		return "", fmt.Errorf("no weights were found in the recording")
	case len(copied) > 0:
		how = "as autocast's copies say"
	case w.element == 2:
		return "", fmt.Errorf("the weights seem to have 16 bits already")
	case w.element != 4:
		return "", fmt.Errorf("nothing shows whether the weights have 32 bits")
	}
	half := func(id timeline.AllocationID) { // unless it has another size by another change
		if n := r.Requested(id); r.Bytes[id] == n && (len(copied) == 0 || copied[n]) {
			r.resize(id, (n+1)/2)
		}
	}
	r.of(classify.Weights, half)
	r.of(classify.Gradients, half)
	r.of(classify.AutocastCopies, func(id timeline.AllocationID) { r.resize(id, 0) })
	if m, err := r.moments(); err == nil && !m.small {
		m.each(half)
	}
	r.of(classify.Temporary, func(id timeline.AllocationID) {
		if r.classes.Phase[id] == classify.Optimizer && w.sizes[r.Requested(id)] > 0 {
			half(id)
		}
	})
	return fmt.Sprintf("Weights of 32 bits (%s), their gradients and the optimizer's moments take half, and autocast makes no "+
		"copies; activations and logits are as recorded. Updates that 16 bits can't hold are lost.", how), nil
}

// adapterRank is the rank of the adapters of lowRank, as PEFT's examples have it.
const adapterRank = 16

// lowRank freezes the weights and trains adapters of a low rank beside each matrix but the embedding and the head.
func (r *rewriter) lowRank() (string, error) {
	w := r.weights()
	trained := map[int64]bool{} // sizes that have gradients
	r.of(classify.Gradients, func(id timeline.AllocationID) { trained[r.Requested(id)] = true })
	var bytes int64
	for n, count := range w.sizes {
		if trained[n] || trained[2*n] {
			bytes += n * int64(count)
		}
	}
	if all := w.bytes(); 2*bytes < all || all == 0 {
		return "", fmt.Errorf("no more than %s of weights have gradients in the recording", units.Bytes(bytes))
	}
	beside := func(id timeline.AllocationID) { r.resize(id, min(r.Bytes[id], r.adapter(&w, r.Requested(id)))) }
	r.of(classify.Gradients, beside)
	r.of(classify.OptimizerState, beside)
	r.of(classify.Communication, func(id timeline.AllocationID) { r.resize(id, 0) })
	r.noLists()
	adapters := r.adapters(&w)
	r.extra(adapters, 0, max(r.events()-1, 0))
	kept := "as recorded"
	if copies := r.of(classify.AutocastCopies, func(timeline.AllocationID) {}); copies > 0 || w.element != 4 {
		kept = "twice as recorded: adapters may keep their inputs in another type"
		r.of(classify.Activations, func(id timeline.AllocationID) { r.resize(id, 2*r.Bytes[id]) })
	}
	return fmt.Sprintf("Weights are frozen. Each matrix but those of the vocabulary has an adapter of rank %d, %s together, "+
		"with a gradient and moments. Activations are %s.", adapterRank, units.Bytes(adapters), kept), nil
}

// AdapterState is what an optimizer keeps for the adapters of lowRank, of all weights, in bytes.
func AdapterState(c *classify.Classification) int64 {
	r := &rewriter{Timeline: c.Timeline, classes: c}
	w := r.weights()
	return passes.MostKept * r.adapters(&w)
}

// adapters are the bytes of all.
func (r *rewriter) adapters(w *weights) (bytes int64) {
	for n, count := range w.sizes {
		bytes += r.adapter(w, n) * int64(count)
	}
	return bytes
}

// adapter is the bytes of a weight's adapter, in its type, of which one side is the model's width where that is known: else it
// is taken for square. Vectors and vocabularies have none.
func (r *rewriter) adapter(w *weights, bytes int64) int64 {
	element := max(w.element, 2)
	n, side := bytes/element, w.vector/element
	if n < quantLeast || bytes == w.embedding && w.vocabulary() > 0 {
		return 0
	}
	if side == 0 || n%side != 0 || n < side*8 {
		for side = 1; side*side < n; side *= 2 {
		}
	}
	return adapterRank * (side + n/side) * element
}
