package change

import (
	"fmt"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/timeline"
)

// setToNone frees gradients after each optimizer step and makes them again at
// the same place of the next backward pass.
func (r *rewriter) setToNone() (string, error) {
	steps := r.classes.Steps
	updated := make([]int, len(steps))    // the last event of each step's optimizer, -1: none
	backward := make([]int, len(steps)+1) // the first step with a backward pass, from each one on
	backward[len(steps)] = len(steps)
	spans := make([][2]int, len(steps)) // of backward passes
	for at := len(steps) - 1; at >= 0; at-- {
		updated[at], backward[at] = -1, backward[at+1]
		if _, end, ok := phaseOf(&steps[at], classify.Optimizer); ok {
			updated[at] = end
		}
		if first, last, ok := phaseOf(&steps[at], classify.Backward); ok {
			backward[at], spans[at] = at, [2]int{first, last}
		}
	}
	changed := 0
	r.of(classify.Gradients, func(id timeline.AllocationID) {
		born, died := r.BornAt(id), r.FreedAt(id)
		at, share := r.stepAt(born), 0.5 // its place in its backward pass
		if at >= 0 && spans[at][1] > spans[at][0] {
			share = min(max(float64(born-spans[at][0])/float64(spans[at][1]-spans[at][0]), 0), 1)
		}
		at = max(at, 0)
		for ; at < len(steps) && steps[at].LastEvent < died && !r.tooMany; at++ {
			if updated[at] < 0 || updated[at] < born {
				continue // gradients are summed up over several backward passes
			}
			r.release(id, updated[at])
			changed++
			if next := backward[at+1]; next < len(steps) {
				first, last := spans[next][0], spans[next][1]
				if event := first + int(share*float64(last-first)); event < died {
					r.revive(id, event)
				}
				at = next - 1
			}
		}
	})
	if changed == 0 {
		return "", fmt.Errorf("no gradient outlives its step in the recording")
	}
	return "Gradients are freed after each optimizer step and made again at the same place of the next backward pass.", nil
}
