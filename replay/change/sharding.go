package change

import (
	"fmt"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/replay/passes"
	"github.com/vramscope/vramscope/timeline"
)

// shard spreads weights, gradients and optimizer state over GPUs, as FSDP and
// ZeRO 3 do: the weights of a layer are gathered while it works, its gradients
// are reduced as soon as they are there.
func (r *rewriter) shard(gpus int) (string, error) {
	list, err := passes.Of(r.classes)
	if err != nil {
		return "", fmt.Errorf("%w: sharding is for training", err)
	}
	if r.gathers() {
		return "", fmt.Errorf("the recorded program gathers its weights from several GPUs already")
	}
	w := r.weights()
	if len(w.sizes) == 0 {
		return "", fmt.Errorf("no weights were found in the recording")
	}
	part := func(id timeline.AllocationID) { r.resize(id, (r.Bytes[id]+int64(gpus)-1)/int64(gpus)) }
	// weights are gathered as such
	narrow := r.of(classify.AutocastCopies, func(id timeline.AllocationID) { r.resize(id, 0) }) > 0
	r.of(classify.Communication, func(id timeline.AllocationID) { r.resize(id, 0) }) // buckets of data parallelism
	r.of(classify.Weights, part)
	r.of(classify.OptimizerState, part)
	r.of(classify.Gradients, func(id timeline.AllocationID) {
		whole := r.Bytes[id]
		part(id)
		if born := r.BornAt(id); born >= 0 {
			r.extra(2*whole, born, born) // itself, and what is sent
		}
	})
	r.of(classify.Temporary, func(id timeline.AllocationID) {
		if r.classes.Phase[id] == classify.Optimizer && w.sizes[r.Requested(id)] > 0 {
			part(id)
		}
	})
	return r.gather(list, &w, gpus, narrow), nil
}

// gathers reports whether a program gathers weights in its forward pass.
func (r *rewriter) gathers() bool {
	found := false
	r.of(classify.Communication, func(id timeline.AllocationID) {
		found = found || r.classes.Phase[id] == classify.Forward && r.FreedAt(id) < r.events()
	})
	return found
}

// How often the weights of a layer are there at once while it works: as they
// were received, cut into tensors, and already those of the next layer; in the
// backward pass also the gradients that are sent.
const (
	gatheredForward  = 3
	gatheredBackward = 4
)

// gather adds what is gathered from the other GPUs.
func (r *rewriter) gather(list []passes.Pass, w *weights, gpus int, narrow bool) string {
	share := int64(1)
	if narrow && w.element != 2 {
		share = 2 // autocast's type has half the bytes
	}
	var outside, inside int64 // of the layers: embedding and head
	for n, count := range w.sizes {
		if w.vocabulary() > 0 && n == w.embedding {
			outside += n * int64(count) / share
		} else {
			inside += n * int64(count) / share
		}
	}
	layers, one := 0, int64(0)
	for i := range list {
		if n := r.gatherPass(&list[i], outside, inside); n > 0 {
			layers, one = max(layers, n), inside/int64(n)
		}
	}
	text := fmt.Sprintf("Each of %d GPUs holds its share of weights, gradients and optimizer state, and its own batch as "+
		"recorded; ", gpus)
	if narrow {
		text += "weights are gathered in 16 bits in the place of autocast's copies, activations stay as recorded; "
	}
	if layers == 0 {
		return text + fmt.Sprintf("no repeated layers were found, so all weights (%s) are gathered at once.",
			units.Bytes(outside+inside))
	}
	text += fmt.Sprintf("of %d layers, the one at work is gathered (%s, up to %d times for receiving, sending and the next "+
		"layer)", layers, units.Bytes(one), gatheredBackward)
	if outside > 0 {
		text += fmt.Sprintf("; embedding and head (%s) stay gathered from the forward pass to the end of the backward pass",
			units.Bytes(outside))
	}
	return text + "."
}

// gatherPass adds what one pass gathers, and counts its layers.
func (r *rewriter) gatherPass(p *passes.Pass, outside, inside int64) (layers int) {
	repeats := p.Repeats(r.classes)
	for _, part := range repeats {
		layers += part.Count
	}
	if layers == 0 {
		r.extra(outside+inside, p.Start, p.End)
		return 0
	}
	one := inside / int64(layers)
	r.extra(outside, p.Start, p.End)
	for _, part := range repeats {
		for _, x := range p.Layers(r.classes, part) {
			r.extra(gatheredForward*one, x.Start, x.End)
			if at := min(x.First, x.Last) - 1; at > x.End && at+1 < r.events() {
				r.extra(gatheredBackward*one, at, at)
			}
		}
	}
	return layers
}
