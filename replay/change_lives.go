package replay

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/timeline"
)

// fixLeaks frees what a defect keeps at the end of the step that made it.
func (r *rewriter) fixLeaks() (string, error) {
	kinds := ""
	for i := range r.classes.Leaks {
		l := &r.classes.Leaks[i]
		if !l.Defect {
			continue
		}
		if l.Kind == classify.GradientsKept {
			if _, err := r.setToNone(); err != nil {
				return "", err
			}
		} else {
			for _, id := range l.Allocations {
				step := r.stepAt(r.born(id))
				if step >= 0 && r.classes.Steps[step].LastEvent < r.died(id) {
					r.release(id, r.classes.Steps[step].LastEvent)
				}
			}
		}
		if kinds != "" {
			kinds += ", "
		}
		kinds += l.Kind
	}
	if kinds == "" {
		return "", fmt.Errorf("no leak was found in the recording")
	}
	return "What the leak (" + kinds + ") keeps is freed at the end of the step that made it.", nil
}

// setToNone frees gradients after each optimizer step and makes them again at
// the same place of the next backward pass.
func (r *rewriter) setToNone() (string, error) {
	steps := r.classes.Steps
	changed := 0
	r.of(classify.Gradients, func(id timeline.AllocationID) {
		at := r.stepAt(r.born(id))
		if at < 0 {
			at = 0
		}
		share := r.placeInBackward(id)
		for ; at < len(steps) && steps[at].LastEvent < r.died(id); at++ {
			_, end, ok := phaseOf(&steps[at], classify.Optimizer)
			if !ok || end < r.born(id) {
				continue // gradients are summed up over several backward passes
			}
			r.release(id, end)
			changed++
			for next := at + 1; next < len(steps); next++ {
				first, last, ok := phaseOf(&steps[next], classify.Backward)
				if !ok {
					continue
				}
				if event := first + int(share*float64(last-first)); event < r.died(id) {
					r.revive(id, event)
				}
				at = next - 1
				break
			}
		}
	})
	if changed == 0 {
		return "", fmt.Errorf("no gradient outlives its step in the recording")
	}
	return "Gradients are freed after each optimizer step and made again at the same place of the next backward pass.", nil
}

// placeInBackward is where in its backward pass a gradient is made, from 0 to 1.
func (r *rewriter) placeInBackward(id timeline.AllocationID) float64 {
	at := r.stepAt(r.born(id))
	if at < 0 {
		return 0.5
	}
	first, last, ok := phaseOf(&r.classes.Steps[at], classify.Backward)
	if !ok || last <= first {
		return 0.5
	}
	return min(max(float64(r.born(id)-first)/float64(last-first), 0), 1)
}

// checkpoint keeps of each layer only its input through the forward pass, and
// makes the rest again when the layer's backward begins.
func (r *rewriter) checkpoint() (string, error) {
	passes, err := r.forwardPasses()
	if err != nil {
		return "", err
	}
	layers := 0
	for _, pass := range passes {
		n := r.layersOf(pass)
		if n < 2 {
			continue
		}
		layers = max(layers, n)
		r.checkpointPass(pass, n)
	}
	if layers == 0 {
		return "", fmt.Errorf("no repeated layers were found in the forward pass: it may use checkpointing already")
	}
	return fmt.Sprintf("%d layers of equal activations: each keeps its input, frees the rest when it is done and makes it again right before its backward pass; what the second forward pass needs besides is not counted.", layers), nil
}

// forwardPasses are, for each pass, the activations that are saved for its
// backward pass, in the order of their birth.
func (r *rewriter) forwardPasses() ([][]timeline.AllocationID, error) {
	var backward []int // where backward passes begin
	spans := slices.Clone(r.classes.Before)
	for i := range r.classes.Steps {
		spans = append(spans, r.classes.Steps[i].Phases...)
	}
	for _, p := range spans {
		if p.Phase == classify.Backward {
			backward = append(backward, p.FirstEvent)
		}
	}
	var passes [][]timeline.AllocationID
	last := -1
	for id, category := range r.classes.Category {
		a := timeline.AllocationID(id)
		switch r.classes.Detail[id] {
		case classify.CheckpointInput, classify.Recomputed:
			return nil, fmt.Errorf("the recorded program uses checkpointing already")
		}
		if category != classify.Activations || r.classes.Phase[id] != classify.Forward || r.born(a) < 0 {
			continue
		}
		pass := sort.SearchInts(backward, r.born(a))
		if pass != last {
			passes = append(passes, nil)
			last = pass
		}
		passes[len(passes)-1] = append(passes[len(passes)-1], a)
	}
	if len(passes) == 0 {
		return nil, fmt.Errorf("no activations were found in the recording")
	}
	return passes, nil
}

// maxLayers is more than any model has, and mostShare how much of a pass must
// repeat itself, in percent.
const (
	maxLayers = 256
	mostShare = 80
)

// layersOf is how often a pass repeats itself: the largest number that nearly
// all sizes and call sites occur a multiple of times.
func (r *rewriter) layersOf(pass []timeline.AllocationID) int {
	type key struct {
		bytes int64
		stack uint32
	}
	count := map[key]int{}
	var all int64
	for _, id := range pass {
		count[key{r.Timeline.Requested(id), uint32(r.Timeline.Stack(id))}]++
		all += r.Timeline.Requested(id)
	}
	votes := map[int]int64{} // bytes by number of repeats
	for k, n := range count {
		votes[n] += k.bytes * int64(n)
	}
	for layers := maxLayers; layers > 1; layers-- {
		var fits int64
		for n, bytes := range votes {
			if n%layers == 0 {
				fits += bytes
			}
		}
		if fits/mostShare*100 >= all {
			return layers
		}
	}
	return 0
}

// checkpointPass cuts a pass into equal layers.
func (r *rewriter) checkpointPass(pass []timeline.AllocationID, layers int) {
	per := (len(pass) + layers - 1) / layers
	for from := 0; from < len(pass); from += per {
		layer := pass[from:min(from+per, len(pass))]
		end := r.born(layer[len(layer)-1])
		if from+per < len(pass) {
			end = max(end, r.born(pass[from+per])-1)
		}
		// Backward begins with the first death after the layer's end.
		backward := r.Timeline.Device.Events.Len()
		var saved []timeline.AllocationID
		for _, id := range layer {
			if d := r.died(id); d > end {
				saved = append(saved, id)
				backward = min(backward, d)
			}
		}
		if len(saved) < 2 {
			continue
		}
		// The input is needed longest.
		input := slices.MaxFunc(saved, func(a, b timeline.AllocationID) int { return cmp.Compare(r.died(a), r.died(b)) })
		for _, id := range saved {
			if id == input {
				continue
			}
			r.release(id, end)
			if backward > end+1 && backward < r.Timeline.Device.Events.Len() {
				r.revive(id, backward-1)
			}
		}
	}
}
