package passes

import (
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// StillToCome is what the phase in which a request failed has yet to allocate, that
// request included, as far as it can be told; inOptimizer: it is OptimizerStateToCome,
// else RestOfStep.
func StillToCome(c *classify.Classification, oom *timeline.OOM) (bytes int64, inOptimizer bool) {
	if n := OptimizerStateToCome(c, oom); n > 0 {
		return n, true
	}
	return RestOfStep(c, oom), false
}

// OptimizerStateToCome is what the first optimizer step has yet to allocate when it
// fails, in bytes.
func OptimizerStateToCome(c *classify.Classification, oom *timeline.OOM) int64 {
	return FirstState(c, oom).ToCome
}

// State is what an optimizer makes for the weights in its first step.
type State struct {
	ToCome   int64 // bytes that are still to be made
	Made, Of int   // gradients that have got theirs, of all
}

// FirstState tells how far the first optimizer step had come when it failed: it makes as
// much state for every gradient as those have got that it reached.
func FirstState(c *classify.Classification, oom *timeline.OOM) (x State) {
	if !slices.ContainsFunc(Spans(c, classify.Optimizer), func(p classify.PhaseSpan) bool {
		return p.FirstEvent <= oom.Event && oom.Event <= p.LastEvent
	}) {
		return x
	}
	var gradients, state, second, master int64
	var sizes []int64 // of the state, in the order in which it was made
	of := map[int64]bool{}
	for i, bytes := range c.Timeline.Allocated {
		id := timeline.AllocationID(i)
		if !c.Timeline.AliveAt(id, oom.Event) {
			continue
		}
		switch c.Category[i] {
		case classify.Gradients:
			gradients += bytes
			x.Of++
			of[c.Timeline.Requested(id)] = true
		case classify.OptimizerState:
			state += bytes
			if bytes > scalarBlock {
				sizes = append(sizes, c.Timeline.Requested(id)) // blocks may have tails
			}
			if c.Detail[i] == classify.Moment2 {
				second += bytes
			}
			if c.Detail[i] == classify.MasterWeights {
				master += bytes
			}
		}
	}
	each, width := forEach(sizes, of, second > 0, master > 0)
	x.Made = min(len(sizes)/int(each), x.Of)
	x.ToCome = max(0, each*width*gradients-state)
	return x
}

// forEach is how many tensors an optimizer keeps for each gradient, and how many times its
// width each has.
func forEach(sizes []int64, gradients map[int64]bool, second, master bool) (each, width int64) {
	each, width = 1, 1
	wide := wider(sizes, gradients)
	switch {
	case inGroups(sizes, 3) && (master || wide):
		each = 3
	case second || inGroups(sizes, 2):
		each = 2
	}
	if wide {
		width = 2
	}
	return each, width
}

// scalarBlock is what a scalar takes.
const scalarBlock = 512

// inGroups reports whether sizes come in groups of so many equal ones, as the moments of
// each parameter do; the last may be cut short.
func inGroups(sizes []int64, of int) bool {
	kinds := 0
	for i := range sizes {
		switch {
		case i%of > 0 && sizes[i] != sizes[i-1]:
			return false
		case i%of == 0 && i > 0 && sizes[i] != sizes[i-1]:
			kinds++
		}
	}
	return kinds > 0
}

// wider reports whether state takes twice the bytes of gradients: fp32 for 16 bits.
func wider(sizes []int64, gradients map[int64]bool) bool {
	same, twice := 0, 0
	for _, n := range sizes {
		if gradients[n] {
			same++
		}
		if n%2 == 0 && gradients[n/2] {
			twice++
		}
	}
	return twice > same
}

// RestOfStep is what a step that failed in its forward or backward pass would
// still have needed at its peak: as much as an earlier step from the same place
// on, in proportion to what both had saved by then. 0 where there is none to
// compare.
func RestOfStep(c *classify.Classification, oom *timeline.OOM) int64 {
	list, err := Of(c)
	if err != nil || len(list) < 2 {
		return 0
	}
	broken := &list[len(list)-1]
	if oom.Event <= broken.Start || oom.Event > broken.End {
		return 0
	}
	e := &c.Timeline.Device.Events
	var made []int64 // what was asked for in it, the request that failed included
	for i := broken.Start + 1; i <= oom.Event; i++ {
		if asks(e, i) {
			made = append(made, e.Size[i])
		}
	}
	for i := len(list) - 2; i >= 0; i-- {
		whole := &list[i]
		from := whole.Start
		var before []int64
		for len(before) < len(made) && from+1 < whole.End {
			if from++; asks(e, from) {
				before = append(before, e.Size[from])
			}
		}
		if len(before) == len(made) && whole.reaches(c.Timeline, from, oom.Event >= broken.Backward) {
			if rest := rest(c.Timeline, whole, broken, from, proportion(made, before)); rest >= oom.Requested {
				return rest
			}
			return 0 // they aren't alike
		}
	}
	return 0
}

// asks reports whether an event is a request, met or not.
func asks(e *snapshot.Events, event int) bool {
	return e.Action[event] == snapshot.Alloc || e.Action[event] == snapshot.OOM
}

// reaches reports whether a whole pass comes to an event on the same way as one that
// failed: forward, with more to save, or backward.
func (p *Pass) reaches(t *timeline.Timeline, event int, backward bool) bool {
	if backward {
		return event >= p.Backward
	}
	last := len(p.Saved) - 1
	return event < p.Backward && last >= 0 && t.BornAt(p.Saved[last]) >= event
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

// rest compares a broken pass with a whole one, which came as far at an event and
// had asked for less in some proportion: what both had saved must bear it out.
func rest(t *timeline.Timeline, whole, broken *Pass, from int, usual float64) int64 {
	var here, there int64
	for _, id := range broken.Saved {
		here += t.Requested(id)
	}
	for _, id := range whole.Saved {
		if t.BornAt(id) < from {
			there += t.Requested(id)
		}
	}
	var at, peak int64
	t.WalkAllocated(func(event int, bytes int64) {
		if event < from {
			at = bytes
		}
		if event >= from && event <= whole.End {
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
