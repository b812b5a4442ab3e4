package change

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

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
	r.of(classify.Temporary, func(id timeline.AllocationID) {
		if r.classes.Phase[id] == classify.Optimizer && w.sizes[r.Requested(id)] > 0 {
			part(id)
		}
	})
	g := gathering{rewriter: r, share: 1}
	if narrow && w.element != 2 {
		g.share = 2 // autocast's type has half the bytes
	}
	text := g.gather(list, &w, gpus, narrow)
	g.send()
	r.of(classify.Gradients, func(id timeline.AllocationID) {
		whole := r.Bytes[id] / g.share
		part(id)
		if born := r.BornAt(id); born >= 0 {
			r.extra(max(whole-r.Bytes[id], 0), born, g.reducedAt(born))
		}
	})
	return text, nil
}

// gathering is what is known of a program whose weights are gathered layer by layer.
type gathering struct {
	*rewriter
	share  int64 // how many times wider weights are than what is gathered of them
	units  []unit
	passes []passes.Pass
}

// unit is a layer in its backward pass, in events, and how long the buffer stays that its
// gradients are sent from.
type unit struct{ from, to, sent int }

// unitAt is the index of the unit that an event is in, -1 when in none.
func (g *gathering) unitAt(event int) int {
	i := sort.Search(len(g.units), func(i int) bool { return g.units[i].to >= event })
	if i < len(g.units) && g.units[i].from <= event {
		return i
	}
	return -1
}

// send adds the buffers that layers' gradients are sent from. Those that add up over
// micro-batches are born in the first one, and sent in each.
func (g *gathering) send() {
	sums, most := make([]int64, len(g.units)), int64(0)
	g.of(classify.Gradients, func(id timeline.AllocationID) {
		if i := g.unitAt(g.BornAt(id)); i >= 0 {
			sums[i] += g.Bytes[id]
			most = max(most, sums[i])
		}
	})
	for i, u := range g.units {
		if n := cmp.Or(sums[i], most); n > 0 {
			g.extra(n, u.to, u.sent)
		}
	}
}

// reducedAt is the event at which a gradient that is born at another is handed to the other
// GPUs: its layer's last one, or the backward pass's.
func (g *gathering) reducedAt(born int) int {
	if i := g.unitAt(born); i >= 0 {
		return g.units[i].to
	}
	for _, p := range g.passes {
		if p.Backward <= born && born < p.End {
			return min(p.End, g.events()-1)
		}
	}
	return born
}

// gathers reports whether a program gathers weights in its forward pass.
func (r *rewriter) gathers() bool {
	found := false
	r.of(classify.Communication, func(id timeline.AllocationID) {
		found = found || r.classes.Phase[id] == classify.Forward && r.FreedAt(id) < r.events()
	})
	return found
}

// gatheredTwice: while a layer works, its weights are there as they were received and cut
// into tensors; in the backward pass cut into tensors, and those of the next one as received.
const gatheredTwice = 2

// gather adds what is gathered from the other GPUs.
func (r *gathering) gather(list []passes.Pass, w *weights, gpus int, narrow bool) string {
	share := r.share
	r.passes = list
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
		if n := r.gatherPass(&list[i], w, outside, inside); n > 0 {
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
	text += fmt.Sprintf("of %d layers, the one at work is gathered (%s, and as much again for the next one), and its gradients "+
		"are whole until they are sent", layers, units.Bytes(one))
	if outside > 0 {
		text += fmt.Sprintf("; embedding and head (%s) stay gathered from the forward pass to the end of the backward pass",
			units.Bytes(outside))
	}
	return text + "."
}

// gatherPass adds what one pass gathers, and counts its layers. What repeats itself may begin
// within a layer: then there is one more, of which a part is before the first and one after the last.
func (r *gathering) gatherPass(p *passes.Pass, w *weights, outside, inside int64) (layers int) {
	repeats := p.Repeats(r.classes)
	for _, part := range repeats {
		layers += part.Count
	}
	if layers == 0 {
		r.extra(outside+inside, p.Start, p.End)
		return 0
	}
	parted := len(repeats) == 1 && w.layersAre(layers+1)
	if parted {
		layers++
	}
	one := inside / int64(layers)
	r.extra(outside, p.Start, p.End)
	for _, part := range repeats {
		r.gatherLayers(p, p.Layers(r.classes, part), one, parted, p.Saved[part.End():])
	}
	return layers
}

// gatherLayers adds what layers that follow each other gather, and the gradients that they
// send: the buffer for these is there until the next layer needs one. The tail is
// what was saved after the last layer.
func (r *gathering) gatherLayers(p *passes.Pass, layers []passes.Layer, one int64, parted bool, tail []timeline.AllocationID) {
	for _, x := range layers {
		r.extra(gatheredTwice*one, x.Start, x.End)
	}
	us := r.backwards(layers)
	end := min(p.End, r.events()-1)
	if len(us) == 0 {
		return
	}
	last, first := layers[len(layers)-1].End, us[0].from // that what lies around the loss begins and ends with
	for _, id := range tail {
		if freed := r.FreedAt(id); freed > p.Backward && r.Requested(id) >= layers[0].Least {
			last, first = max(last, r.BornAt(id)), min(first, freed)
		}
	}
	if parted {
		r.extra(gatheredTwice*one, p.Start, layers[0].Start)
		r.extra(gatheredTwice*one, layers[len(layers)-1].End, last)
		us = append(append([]unit{{from: first, to: us[0].from}}, us...), unit{from: us[len(us)-1].to, to: end})
	}
	r.extra(one, p.Backward, us[0].from) // the last layer's, ahead of its use
	for i := range us {
		u := &us[i]
		r.extra(gatheredTwice*one, u.from, u.to)
		if u.sent = end; i+1 < len(us) {
			u.sent = us[i+1].to
		}
	}
	r.units = append(r.units, us...)
	slices.SortFunc(r.units, func(a, b unit) int { return cmp.Compare(a.to, b.to) })
}

// backwards are the backward passes of layers, the last layer's first.
func (r *gathering) backwards(layers []passes.Layer) (us []unit) {
	for i := len(layers) - 1; i >= 0; i-- {
		x := &layers[i]
		u := unit{from: min(x.First, x.Last) - 1, to: min(x.Last, r.events()-1)}
		if u.from <= x.End || u.from+1 >= r.events() {
			continue
		}
		if n := len(us); n > 0 {
			u.from = us[n-1].to
		}
		if u.to > u.from {
			us = append(us, u)
		}
	}
	return us
}
