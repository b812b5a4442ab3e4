package classify

import (
	"github.com/vramscope/vramscope/timeline"
)

// keptGradients finds gradients that are zeroed in place instead of freed: they
// live through the next forward and its optimizer step, and no later step makes
// new ones. Gradients that are accumulated over many backwards live long, too,
// but only until the optimizer has used them.
func (l *loop) keptGradients() []Leak {
	var held []survivor
	var bytes, renewed, made int64
	steps := l.optimizerSteps()
	if len(steps) < 2 {
		return nil
	}
	reach := func(died uint32) int { // optimizer steps that an allocation outlives
		n := 0
		for _, k := range steps {
			if died == timeline.Never || died > l.last[k] {
				n++
			}
		}
		return n
	}
	for id := range l.t.Len() {
		a := timeline.AllocationID(id)
		if l.c.Category[id] != Gradients || l.c.Detail[id] == GradientBucket {
			continue
		}
		made += l.bytes(a)
		died, born := l.t.FreeRequested[id], l.t.Born[id]
		if died == timeline.Before {
			continue
		}
		from, before := -1, 0
		if born != timeline.Never {
			from = l.stepAt(born)
			for _, k := range steps {
				if k < from {
					before++
				}
			}
			if from >= l.n {
				continue
			}
		}
		outlived := reach(died) - before
		if outlived >= 2 && (born == timeline.Never || l.c.Phase[id] == Backward) {
			held = append(held, survivor{a, int32(from), int32(l.n)})
			bytes += l.bytes(a)
		} else if from > max(steps[0], 0) && outlived >= 1 {
			renewed += l.bytes(a)
		}
	}
	if bytes < smallTotal || renewed*5 > bytes || bytes*2 < made-renewed {
		return nil
	}
	first := max(0, int(held[0].born))
	shown := 0
	for _, k := range steps {
		if k >= first {
			shown++
		}
	}
	leak := Leak{Kind: GradientsKept, Steps: shown, BytesPerStep: bytes, TotalBytes: bytes}
	l.describe(&leak, held)
	leak.Confidence = confidence(shown, 1, true)
	leak.Near = l.optimizerLine()
	return []Leak{leak}
}

// optimizerSteps are the steps in which an optimizer ran to its end.
func (l *loop) optimizerSteps() []int {
	var steps []int
	for k, at := range l.optimizer {
		if at != timeline.Never {
			steps = append(steps, k)
		}
	}
	return steps
}

// optimizerLine is the user's line that runs the optimizer, as far as its
// allocations show it.
func (l *loop) optimizerLine() (near Site) {
	l.each(func(id timeline.AllocationID, _ int) {
		if near.File != "" || l.c.Phase[id] != Optimizer {
			return
		}
		if lines := l.userLines(l.t.Stack(id)); len(lines) > 0 {
			near = siteOf(lines[0], 0)
		}
	})
	return near
}

// firstStepState finds the state that the optimizer makes in its first step
// and keeps: the jump that is mistaken for a leak.
func (l *loop) firstStepState() []Leak {
	byStep := make([]int64, l.n)
	var total int64
	l.each(func(id timeline.AllocationID, step int) {
		if l.c.Category[id] == OptimizerState && l.t.FreeRequested[id] == timeline.Never {
			byStep[step] += l.bytes(id)
			total += l.bytes(id)
		}
	})
	step := 0
	for k, bytes := range byStep {
		if bytes > byStep[step] {
			step = k
		}
	}
	if total < 1<<20 || byStep[step]*2 < total || total*100 < l.peakAllocated() {
		return nil
	}
	var kept []survivor
	var sure, weighed float64
	l.each(func(id timeline.AllocationID, k int) {
		if k == step && l.c.Category[id] == OptimizerState && l.t.FreeRequested[id] == timeline.Never {
			kept = append(kept, survivor{id, int32(k), int32(l.n)})
			sure += float64(l.c.Confidence[id]) / 100 * float64(l.bytes(id))
			weighed += float64(l.bytes(id))
		}
	})
	leak := Leak{Kind: FirstStepState, Steps: 1, BytesPerStep: byStep[step], TotalBytes: byStep[step], Confidence: sure / weighed}
	l.describe(&leak, kept)
	return []Leak{leak}
}
