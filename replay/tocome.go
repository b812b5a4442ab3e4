package replay

import (
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// toCome is what the phase in which a request failed has yet to allocate, that
// request included, as far as it can be told: state of the first optimizer
// step, or what the rest of a step needs by the step before.
func toCome(c *classify.Classification, oom *timeline.OOM) (bytes int64, inOptimizer bool) {
	if n := StillToCome(c, oom); n > 0 {
		return n, true
	}
	return restOfPass(c, oom), false
}

// restOfPass is what a step that failed in its forward or backward pass would
// still have needed at its peak: as much as an earlier step from the same place
// on, in proportion to what both had saved by then. 0 where there is none to
// compare.
func restOfPass(c *classify.Classification, oom *timeline.OOM) int64 {
	r := &rewriter{Program: &Program{Timeline: c.Timeline}, classes: c}
	passes, err := r.forwardPasses()
	if err != nil || len(passes) < 2 {
		return 0
	}
	broken := &passes[len(passes)-1]
	if oom.Event <= broken.start || oom.Event > broken.end {
		return 0
	}
	var made []int64 // what was asked for in it, the request that failed included
	for i := broken.start + 1; i <= oom.Event; i++ {
		if r.asks(i) {
			made = append(made, r.Timeline.Device.Events.Size[i])
		}
	}
	for i := len(passes) - 2; i >= 0; i-- {
		whole := &passes[i]
		from := whole.start
		var before []int64
		for len(before) < len(made) && from+1 < whole.end {
			if from++; r.asks(from) {
				before = append(before, r.Timeline.Device.Events.Size[from])
			}
		}
		if len(before) == len(made) && r.goesOn(whole, from, oom.Event >= broken.backward) {
			if rest := r.rest(whole, broken, from, proportion(made, before)); rest >= oom.Requested {
				return rest
			}
			return 0 // they aren't alike
		}
	}
	return 0
}

// goesOn tells whether a whole pass comes to an event on the same way as one that
// failed: forward, with more to save, or backward.
func (r *rewriter) goesOn(whole *pass, from int, backward bool) bool {
	if backward {
		return from >= whole.backward
	}
	last := len(whole.saved) - 1
	return from < whole.backward && last >= 0 && r.Timeline.BornAt(whole.saved[last]) >= from
}

// proportion is that of most of as many requests of two passes, the smallest to the
// smallest: one for batches of another size. Those of another part of the program,
// such as an evaluation, have none: 0. It sorts both.
func proportion(a, b []int64) float64 {
	const (
		small = 64 << 10 // bytes; what doesn't depend on the batch
		few   = 8        // requests
	)
	slices.Sort(a)
	slices.Sort(b)
	var ratios []float64
	for i := range a {
		if max(a[i], b[i]) > small && b[i] > 0 {
			ratios = append(ratios, float64(a[i])/float64(b[i]))
		}
	}
	if len(ratios) < few {
		return 0
	}
	slices.Sort(ratios)
	usual, same := ratios[len(ratios)/2], 0
	for _, x := range ratios {
		if x > usual*0.8 && x < usual*1.25 {
			same++
		}
	}
	if same*3 < len(ratios)*2 {
		return 0
	}
	return usual
}

// asks tells whether an event is a request, met or not.
func (r *rewriter) asks(event int) bool {
	action := r.Timeline.Device.Events.Action[event]
	return action == snapshot.Alloc || action == snapshot.OOM
}

// rest compares a broken pass with a whole one, which came as far at an event and
// had asked for less in some proportion: what both had saved must bear it out.
func (r *rewriter) rest(whole, broken *pass, from int, usual float64) int64 {
	var here, there int64
	for _, id := range broken.saved {
		here += r.Timeline.Requested(id)
	}
	for _, id := range whole.saved {
		if r.Timeline.BornAt(id) < from {
			there += r.Timeline.Requested(id)
		}
	}
	var at, peak int64
	r.Timeline.WalkAllocated(func(event int, bytes int64) {
		if event < from {
			at = bytes
		}
		if event >= from && event <= whole.end {
			peak = max(peak, bytes)
		}
	})
	if there == 0 {
		return 0
	}
	ratio := float64(here) / float64(there)
	if ratio > 2*usual || usual > 2*ratio {
		return 0
	}
	return int64(float64(peak-at) * ratio)
}
