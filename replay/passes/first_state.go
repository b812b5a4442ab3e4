package passes

import (
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/pattern"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// State is what an optimizer makes for the weights in its first step.
type State struct {
	ToCome   int64 // bytes that are still to be made
	Lists    int64 // bytes of the temporaries that the step makes for all weights at once when its state is there
	Maybe    int64 // the same, where no stack shows whose step it is
	Made, Of int   // gradients that have got theirs, of all
	PerGradient
}

// PerGradient is what an optimizer keeps for each gradient.
type PerGradient struct {
	Tensors int
	Width   float64 // of each, against the gradient's
}

// Copied reports whether one of the tensors is a copy of the weight in fp32: Adam's moments alone are two.
func (x PerGradient) Copied() bool { return x.Tensors > 2 && x.Width == 2 }

// FirstState tells how far the first optimizer step had come when it failed: it makes as
// much state for every gradient as those have got that it reached.
func FirstState(c *classify.Classification, oom *timeline.OOM) (x State) {
	if !In(c, classify.Optimizer, oom.Event) {
		return x
	}
	b := madeBy(c, oom)
	if steppedBefore(c, oom, b.of) {
		return State{}
	}
	var reached int
	x.Of = b.gradients
	x.PerGradient, reached = perGradient(b.made, b.of, b.least, oom.Requested)
	x.Made = min(reached/x.Tensors, x.Of)
	x.ToCome = max(0, int64(float64(x.Tensors)*x.Width*float64(b.bytes[classify.Gradients]))-b.bytes[classify.OptimizerState])
	lists := max(0, int64(x.Width*float64(b.bytes[classify.Gradients]))-b.bytes[classify.Temporary])
	switch stacks := slices.ContainsFunc(b.made, func(k kept) bool { return k.stack != 0 }); {
	case x.Copied() || 2*b.counters >= max(1, reached/x.Tensors): // fused: counters of steps lie on the GPU, too
	case !stacks && x.Tensors > 1 && x.Width == 1:
		x.Maybe = lists
	case rootsTogether(c.Timeline.Snapshot, b.made):
		x.Lists = lists
	}
	return x
}

// begun is what an optimizer's step had when it failed: gradients, by bytes in of, and what it made.
type begun struct {
	bytes               [classify.NumCategories]int64
	gradients, counters int
	least               int // tensors that it keeps for a gradient
	of                  map[int64]int
	made                []kept
}

// madeBy looks at what is there of the step in which a request failed.
func madeBy(c *classify.Classification, oom *timeline.OOM) begun {
	t, since := c.Timeline, stepBefore(c, oom)
	b := begun{of: map[int64]int{}, least: 1}
	for i, bytes := range t.Allocated {
		id, category := timeline.AllocationID(i), c.Category[i]
		switch inStep := c.Phase[i] == classify.Optimizer; {
		case !t.AliveAt(id, oom.Event) || t.BornAt(id) < since:
			continue
		case category == classify.Gradients:
			b.gradients++
			b.of[t.Requested(id)]++
		case category == classify.Temporary && !inStep, category == classify.OptimizerState && t.BornAt(id) >= 0 && !inStep:
			continue // copies of the weights that were made with the optimizer are complete
		case category == classify.OptimizerState:
			b.add(kept{t.Requested(id), t.Stack(id)}, bytes)
			if c.Detail[i] == classify.Moment2 {
				b.least = 2
			}
		}
		b.bytes[category] += bytes
	}
	return b
}

// add takes down state, of which blocks may have tails.
func (b *begun) add(k kept, block int64) {
	if block > scalarBlock {
		b.made = append(b.made, k)
	} else if k.bytes <= mostCounter {
		b.counters++
	}
}

// rootsTogether reports whether all of some state is made by one of torch's optimizers that take the root of a moment, of as
// many weights at once as there are, into new memory (_multi_tensor_adam): what their step does unless it's told otherwise.
func rootsTogether(s *snapshot.Snapshot, made []kept) bool {
	of := map[snapshot.StackID]bool{}
	for _, k := range made {
		if _, ok := of[k.stack]; !ok {
			of[k.stack] = slices.ContainsFunc(s.Stack(k.stack), func(id snapshot.FrameID) bool {
				f := &s.Frames[id]
				return s.String(f.Function) == "_init_group" && rooted().MatchString(s.String(f.File))
			})
		}
		if !of[k.stack] {
			return false
		}
	}
	return len(made) > 0
}

// rooted are the files of these optimizers.
var rooted = pattern.Of(`torch[/\\]optim[/\\](adam|adamw|nadam|radam|rmsprop)\.py$`)

// steppedBefore reports whether an optimizer's step of an earlier iteration had gradients of the same sizes, and state of
// those sizes is there: what the failed step makes then is temporary.
func steppedBefore(c *classify.Classification, oom *timeline.OOM, gradients map[int64]int) bool {
	t := c.Timeline
	this := slices.IndexFunc(c.Steps, func(s classify.Step) bool { return s.FirstEvent <= oom.Event && oom.Event <= s.LastEvent })
	if this < 0 || len(gradients) == 0 {
		return false
	}
	began := c.Steps[this].FirstEvent
	before := stepOfOptimizer(c, began)
	had, state := map[int64]int{}, map[int64]int{}
	for i, category := range c.Category {
		switch id := timeline.AllocationID(i); {
		case category == classify.Gradients && before >= 0 && t.AliveAt(id, before):
			had[t.Requested(id)]++
		case category == classify.OptimizerState && t.AliveAt(id, oom.Event) && t.BornAt(id) < began:
			state[t.Requested(id)]++
		}
	}
	for bytes, n := range gradients {
		if had[bytes] != n || max(state[bytes], state[2*bytes], state[bytes/2], state[bytes/4]) < n {
			return false
		}
	}
	return true
}

// stepOfOptimizer is where the last optimizer's step before an event begins, -1 for none.
func stepOfOptimizer(c *classify.Classification, event int) int {
	for _, p := range slices.Backward(Spans(c, classify.Optimizer)) {
		if p.LastEvent < event {
			return p.FirstEvent
		}
	}
	return -1
}

// stepBefore is the end of the last optimizer step before the newest gradients, where one had made state by then: what is older
// got its state, or is of a model that nothing trains any more. -1: there is none.
func stepBefore(c *classify.Classification, oom *timeline.OOM) int {
	newest, made := -1, oom.Event
	for i, category := range c.Category {
		switch born := c.Timeline.BornAt(timeline.AllocationID(i)); {
		case born < 0 || born >= oom.Event:
		case category == classify.Gradients:
			newest = max(newest, born)
		case category == classify.OptimizerState && c.Phase[i] == classify.Optimizer:
			made = min(made, born)
		}
	}
	for _, p := range slices.Backward(Spans(c, classify.Optimizer)) {
		if p.LastEvent < newest && p.LastEvent >= made {
			return p.LastEvent
		}
	}
	return -1
}

// scalarBlock is what a scalar takes.
const scalarBlock = 512

// mostCounter is the most bytes of a counter of steps.
const mostCounter = 8

// kept is one tensor of an optimizer's state, in the order in which they were made.
type kept struct {
	bytes int64
	stack snapshot.StackID
}

// perGradient tells what an optimizer keeps for each gradient: by the lines that take turns to make it, by the sizes,
// which come in groups, and by how many there are of a size, a request that failed among them; at least so many. Reached
// are the tensors that go with a gradient.
func perGradient(made []kept, gradients map[int64]int, least int, failed int64) (x PerGradient, reached int) {
	x = PerGradient{Tensors: 1, Width: 1}
	var list []kept
	for _, width := range []float64{1, 2, 0.5, 0.25} { // fp32 for 16 bits, 16 bits for fp32, 8 bits for fp32
		of := slices.DeleteFunc(slices.Clone(made), func(k kept) bool { return gradients[int64(float64(k.bytes)/width)] == 0 })
		if len(of) > len(list) {
			x.Width, list = width, of
		}
	}
	for bytes, n := range countSizes(list) {
		all := gradients[int64(float64(bytes)/x.Width)]
		if n == all && (bytes+scalarBlock-1)/scalarBlock*scalarBlock == failed {
			n++ // the second of the last one; lists of temporaries come after all state
		}
		least = max(least, (n+all-1)/all)
	}
	x.Tensors = min(max(least, turns(list), grouped(list, least)), MostKept)
	return x, len(list)
}

// MostKept is more than any optimizer keeps for one weight: AMSGrad's three and a copy in fp32.
const MostKept = 4

func countSizes(list []kept) map[int64]int {
	sizes := map[int64]int{}
	for _, k := range list {
		sizes[k.bytes]++
	}
	return sizes
}

// turns is how many lines take turns to make tensors: after so many the same one comes again. 0 without stacks.
func turns(list []kept) (most int) {
	const part = 5 // a fifth of them; a line among four that is the only one of its kind makes a quarter
	last, seen := map[snapshot.StackID]int{}, [MostKept + 1]int{}
	for i, k := range list {
		if before, ok := last[k.stack]; ok && k.stack != 0 && i-before <= MostKept {
			seen[i-before]++
		}
		last[k.stack] = i
	}
	for d, n := range seen {
		if n > 0 && n*part >= len(list) {
			most = d
		}
	}
	return most
}

// grouped is the smallest group, of two tensors and as many as there must be, in which nearly all equal ones come after
// each other; the last may be cut short. 0 where none does, or all are of one size.
func grouped(list []kept, least int) int {
	var runs []int
	for i := range list {
		if i == 0 || list[i].bytes != list[i-1].bytes {
			runs = append(runs, 0)
		}
		runs[len(runs)-1]++
	}
	for n := max(2, least); n <= MostKept && len(runs) > 1; n++ {
		whole := 0
		for _, run := range runs[:len(runs)-1] {
			if run%n == 0 {
				whole++
			}
		}
		if whole*10 >= (len(runs)-1)*9 {
			return n
		}
	}
	return 0
}

// Copies are the fp32 copies of the weights among an optimizer's state. Where no stack tells them from moments, they are
// the first of each three tensors, or four, that are twice as wide as their gradient.
func Copies(c *classify.Classification) map[timeline.AllocationID]bool {
	copies := map[timeline.AllocationID]bool{}
	var made []kept
	var ids []timeline.AllocationID
	of := map[int64]int{}
	for i, category := range c.Category {
		switch id := timeline.AllocationID(i); {
		case category == classify.Gradients:
			of[c.Timeline.Requested(id)] = len(c.Category) // at different times
		case category != classify.OptimizerState:
		case c.Detail[i] == classify.MasterWeights:
			copies[id] = true
		case c.Timeline.Allocated[i] > scalarBlock:
			made, ids = append(made, kept{c.Timeline.Requested(id), c.Timeline.Stack(id)}), append(ids, id)
		}
	}
	x, _ := perGradient(made, of, 1, 0)
	if len(copies) > 0 || !x.Copied() {
		return copies
	}
	of = map[int64]int{}
	for i, k := range made {
		if of[k.bytes]%x.Tensors == 0 {
			copies[ids[i]] = true
		}
		of[k.bytes]++
	}
	return copies
}
