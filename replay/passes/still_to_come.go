package passes

import (
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// RestOfStep is what a step that failed in its forward or backward pass would
// still have needed at its peak: as much as an earlier step from the same place
// on, each request in proportion to those of its size before it. 0 where there is
// none to compare; times is how large the batch is against that step's.
func RestOfStep(c *classify.Classification, oom *timeline.OOM) (bytes int64, times float64) {
	list, err := Of(c)
	if err != nil || len(list) < 2 {
		return 0, 0
	}
	broken := &list[len(list)-1]
	if oom.Event <= broken.Start || oom.Event > broken.End {
		return 0, 0
	}
	ends := func(i int) int { // of the pass before one
		if i == 0 {
			return list[0].Start
		}
		return min(list[i-1].End, list[i].Start)
	}
	made := broken.requests(c, ends(len(list)-1), oom.Event)
	for i := len(list) - 2; i >= 0; i-- {
		whole := &list[i]
		var best growth
		for _, g := range whole.places(c, ends(i), made) {
			if g.same > best.same && whole.reaches(c.Timeline, g.from, oom.Event >= broken.Backward) {
				best = g
			}
		}
		if best.same > 0 {
			return max(best.rest(c, whole.End), oom.Requested), best.usual
		}
	}
	return 0, 0
}

// requests are the events, up to one, at which a pass and what its step begins with
// asked for memory, after the pass before it.
func (p *Pass) requests(c *classify.Classification, after, last int) (events []int) {
	first := max(after, 0) // also after the step before it; the first of all passes may begin with the recording
	for _, s := range Spans(c, classify.Optimizer) {
		if s.LastEvent <= p.Start {
			first = max(first, s.LastEvent+1)
		}
	}
	for i := first; i <= min(last, len(c.Timeline.Of)-1); i++ {
		if a := c.Timeline.Device.Events.Action[i]; a == snapshot.Alloc || a == snapshot.OOM {
			events = append(events, i)
		}
	}
	return events
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

// places compares what a broken pass has asked for with as much of a whole one, which
// may have asked for a little more or less while it loaded its batch.
func (p *Pass) places(c *classify.Classification, after int, made []int) (out []growth) {
	const nearly, most = 16, 1024 // requests
	before := p.requests(c, after, p.End)
	for n := max(1, len(made)-nearly); n <= min(len(before), len(made)+nearly); n++ {
		k := min(n, len(made), most)
		g := compare(c, before[n-k:n], made[len(made)-k:])
		g.from = before[n-1]
		out = append(out, g)
	}
	return out
}

// kind are the requests of one size for one purpose.
type kind struct {
	category classify.Category
	bytes    int64
}

// growth is how many times larger one pass is than another.
type growth struct {
	usual float64             // of most requests that depend on the batch
	same  int                 // requests that grow so, or not at all; 0: too few
	kinds map[kind][2]float64 // by their kind in the smaller one: bytes of both
	from  int                 // event of the smaller one at the same place
}

// compare pairs as many requests of two passes in their order: those that depend on
// the batch grow in one proportion. Those of another part of the program, such as an
// evaluation, have none.
func compare(c *classify.Classification, before, made []int) growth {
	const (
		small = 64 << 10 // bytes; what doesn't depend on the batch
		few   = 8        // requests
	)
	g := growth{usual: 1, kinds: map[kind][2]float64{}}
	var ratios []float64
	equal, e := 0, &c.Timeline.Device.Events
	for i := range before {
		n, m := e.Size[before[i]], e.Size[made[i]]
		if id := c.Timeline.Of[before[i]]; id != timeline.NoAllocation {
			k := kind{c.Category[id], n}
			g.kinds[k] = [2]float64{g.kinds[k][0] + float64(n), g.kinds[k][1] + float64(m)}
		}
		switch {
		case max(n, m) <= small || n == 0:
		case n == m:
			equal++
		default:
			ratios = append(ratios, float64(m)/float64(n))
		}
	}
	slices.Sort(ratios)
	g.same = equal
	if len(ratios) > 0 {
		g.usual = ratios[len(ratios)/2]
		for _, x := range ratios {
			if x > g.usual*0.8 && x < g.usual*1.25 {
				g.same++
			}
		}
	}
	if all := equal + len(ratios); all < few || g.same*3 < all*2 {
		g.same = 0
	}
	return g
}

// rest is what the smaller pass needs at most from the same place to an event, grown.
func (g *growth) rest(c *classify.Classification, end int) int64 {
	t := c.Timeline
	grown := func(id timeline.AllocationID) float64 {
		bytes := float64(t.Allocated[id])
		if sum := g.kinds[kind{c.Category[id], t.Requested(id)}]; sum[0] > 0 {
			return bytes * sum[1] / sum[0]
		}
		switch c.Category[id] { // as large as a weight is, not as the batch
		case classify.Weights, classify.Gradients, classify.OptimizerState, classify.Communication, classify.AutocastCopies,
			classify.Workspace:
			return bytes
		}
		return bytes * g.usual
	}
	var now, peak float64
	for i := g.from; i <= min(end, len(t.Of)-1); i++ {
		switch id := t.Of[i]; {
		case id == timeline.NoAllocation:
		case t.Device.Events.Action[i] == snapshot.Alloc:
			now += grown(id)
			peak = max(peak, now)
		case t.Device.Events.Action[i] == snapshot.FreeRequested:
			now -= grown(id)
		}
	}
	return int64(peak)
}

// LayersToCome is what the first forward pass, which failed among layers that are alike, had
// yet to save: as much for each as for one that it had been through. Of counts the layers
// by the weights; it is 0 where they don't tell.
func LayersToCome(c *classify.Classification, oom *timeline.OOM) (done, of int, bytes int64) {
	list, err := Of(c)
	if err != nil {
		return 0, 0, 0
	}
	p := &list[len(list)-1]
	if oom.Event <= p.Start || oom.Event > p.Backward {
		return 0, 0, 0
	}
	p.Saved = slices.DeleteFunc(slices.Clone(p.Saved), func(id timeline.AllocationID) bool {
		return !c.Timeline.AliveAt(id, oom.Event)
	})
	parts := p.Repeats(c)
	if len(parts) == 0 {
		return 0, 0, 0
	}
	x := parts[0]
	done, of = x.Count, layersOf(c, oom)
	if len(p.Saved)-x.End() >= x.Period || of <= done {
		return 0, 0, 0 // it was beyond them, or they aren't one layer each
	}
	for _, id := range p.Saved[x.End()-x.Period : x.End()] {
		bytes += int64(of-done) * c.Timeline.Allocated[id]
	}
	for _, id := range p.Saved[x.End():] {
		bytes -= c.Timeline.Allocated[id]
	}
	return done, of, bytes
}

// layersOf is how many layers a model has whose weights were made layer by layer, 0 where
// most of them weren't.
func layersOf(c *classify.Classification, oom *timeline.OOM) int {
	t := c.Timeline
	var sizes, sums []int64
	all := int64(0)
	for i, category := range c.Category {
		if id := timeline.AllocationID(i); category == classify.Weights && t.AliveAt(id, oom.Event) && t.BornAt(id) >= 0 {
			sizes, sums = append(sizes, t.Requested(id)), append(sums, all)
			all += t.Requested(id)
		}
	}
	x, bytes := timeline.HeaviestRepeat(timeline.NewRuns(sizes, 1).At, append(sums, all), 0, len(sizes))
	if bytes*3 < all {
		return 0
	}
	return x.Count
}
