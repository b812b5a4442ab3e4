package replay

import (
	"github.com/vramscope/vramscope/classify"
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
	for i := len(passes) - 2; i >= 0; i-- {
		whole := &passes[i]
		if n := len(broken.saved); len(whole.saved) > n && whole.backward > r.born(whole.saved[n]) {
			return r.rest(whole, broken)
		}
	}
	return 0
}

// rest compares a broken pass with a whole one.
func (r *rewriter) rest(whole, broken *pass) int64 {
	n := len(broken.saved)
	var here, there int64
	for i := range n {
		here += r.Timeline.Requested(broken.saved[i])
		there += r.Timeline.Requested(whole.saved[i])
	}
	from := r.born(whole.saved[n-1])
	var at, peak int64
	r.Timeline.WalkAllocated(func(event int, bytes int64) {
		if event == from {
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
