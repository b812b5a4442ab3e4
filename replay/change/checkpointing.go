package change

import (
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/replay/passes"
	"github.com/vramscope/vramscope/timeline"
)

// checkpoint keeps of each layer only its input through the forward pass, and
// makes the rest again when the layer's backward begins.
func (r *rewriter) checkpoint() (string, error) {
	if slices.Contains(r.classes.Detail, classify.CheckpointInput) || slices.Contains(r.classes.Detail, classify.Recomputed) {
		return "", fmt.Errorf("the recorded program uses checkpointing already")
	}
	list, err := passes.Of(r.classes)
	if err != nil {
		return "", err
	}
	most := 0
	for i := range list {
		p, n := &list[i], 0
		for _, part := range p.Repeats(r.classes) {
			if r.checkpointLayers(p, part) {
				n += part.Count
			}
		}
		if n > most && most == 0 {
			r.checkpointOlder(p, n)
		}
		most = max(most, n)
	}
	if most == 0 {
		return "", fmt.Errorf("no repeated layers were found in the forward pass: it may use checkpointing already")
	}
	text := fmt.Sprintf("%d layers of equal activations: each keeps its input, frees the rest when it is done and makes it "+
		"again right before its backward pass", most)
	if _, err := r.cacheOff(); err == nil {
		text += "; keys and values are no longer cached, as Transformers does it then"
	}
	return text + ".", nil
}

// checkpointLayers rewrites the lives of what a part of a pass saves. It tells
// whether there was anything that needn't be kept.
func (r *rewriter) checkpointLayers(p *passes.Pass, part timeline.Repeat) bool {
	list := p.Layers(r.classes, part)
	if large := slices.DeleteFunc(slices.Clone(list[0].Saved), func(id timeline.AllocationID) bool {
		return r.Requested(id) < list[0].Least
	}); len(large) < 2 {
		return false // one tensor for each layer is all that checkpointing keeps
	}
	before := p.Saved[max(0, part.From-part.Period):part.From]
	some := false
	for k := range list {
		x := &list[k]
		if id, ok := x.Input(r.Timeline); ok {
			r.inputs = append(r.inputs, r.Requested(id))
		}
		if !r.takesSaved(before, x) {
			r.keepInput(x)
		}
		for _, id := range x.Saved {
			if freed := r.FreedAt(id); freed > x.End && !x.Kept[id] && (x.First == r.events() || freed >= x.First) {
				r.remake(id, x.End, x.First)
				some = true
			}
		}
		r.castAgain(p, x)
		before = x.Saved
	}
	return some
}

// takesSaved reports whether a layer's input is among the tensors that were
// saved before it.
func (r *rewriter) takesSaved(before []timeline.AllocationID, x *passes.Layer) bool {
	for _, id := range before {
		if freed := r.FreedAt(id); x.First <= freed && freed <= x.Last && r.Requested(id) >= x.Least {
			return true
		}
	}
	return false
}

// keepInput keeps the input of a layer that the recorded program had no need
// to save.
func (r *rewriter) keepInput(x *passes.Layer) {
	id, ok := x.Input(r.Timeline)
	if ok && r.classes.Category[id] != classify.Activations && r.FreedAt(id) < x.Last {
		r.extra(r.Bytes[id], r.FreedAt(id), x.Last)
	}
}

// checkpointOlder frees what a pass before the recording saved and no backward
// pass uses any more, but for as many inputs as there are layers.
func (r *rewriter) checkpointOlder(p *passes.Pass, layers int) {
	if len(r.inputs) == 0 {
		return
	}
	input, kept := slices.Max(r.inputs), 0
	r.of(classify.Activations, func(id timeline.AllocationID) {
		if r.BornAt(id) >= 0 || r.FreedAt(id) >= p.Backward {
			return
		}
		if r.Requested(id) == input && kept < layers {
			kept++
			return
		}
		r.Bytes[id] = 0
	})
}

// remake frees an allocation after one event and makes it again before another.
func (r *rewriter) remake(id timeline.AllocationID, free, again int) {
	r.release(id, free)
	if again > free+1 && again < r.events() {
		r.revive(id, again-1)
	}
}

// castAgain frees autocast's copies of a layer's weights when the forward pass
// is over, which ends autocast, and makes them again for its backward pass.
func (r *rewriter) castAgain(p *passes.Pass, x *passes.Layer) {
	for id := x.Saved[0]; id <= x.Saved[len(x.Saved)-1]; id++ {
		if r.classes.Category[id] == classify.AutocastCopies && r.FreedAt(id) > p.Backward {
			r.remake(id, p.Backward-1, x.First)
		}
	}
}
