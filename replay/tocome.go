package replay

import (
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

// restOfPass is what a step that failed in its forward pass would still have
// needed at its peak: as much as an earlier step from the same place on, in
// proportion to what both had saved by then. 0 where there is none to compare.
func restOfPass(c *classify.Classification, oom *timeline.OOM) int64 {
	r := &rewriter{Program: &Program{Timeline: c.Timeline}, classes: c}
	passes, err := r.forwardPasses()
	if err != nil || len(passes) < 2 {
		return 0
	}
	broken := &passes[len(passes)-1]
	if oom.Event <= broken.start || oom.Event >= broken.backward {
		return 0
	}
	made := 0 // what was asked for in it, the request that failed included
	for i := broken.start + 1; i <= oom.Event; i++ {
		if r.asks(i) {
			made++
		}
	}
	for i := len(passes) - 2; i >= 0; i-- {
		whole := &passes[i]
		from, n := whole.start, made
		for n > 0 && from+1 < whole.backward {
			if from++; r.asks(from) {
				n--
			}
		}
		if more := len(whole.saved) - 1; n == 0 && more >= 0 && r.born(whole.saved[more]) >= from {
			if rest := r.rest(whole, broken, from); rest >= oom.Requested {
				return rest
			}
			return 0 // they aren't alike
		}
	}
	return 0
}

// asks tells whether an event is a request, met or not.
func (r *rewriter) asks(event int) bool {
	action := r.Timeline.Device.Events.Action[event]
	return action == snapshot.Alloc || action == snapshot.OOM
}

// rest compares a broken pass with a whole one, which came as far at an event.
func (r *rewriter) rest(whole, broken *pass, from int) int64 {
	var here, there int64
	for _, id := range broken.saved {
		here += r.Timeline.Requested(id)
	}
	for _, id := range whole.saved {
		if r.born(id) < from {
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
	return int64(float64(peak-at) / float64(there) * float64(here))
}
