package replay

import (
	"fmt"
	"slices"
	"sort"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/timeline"
)

// checkpoint keeps of each layer only its input through the forward pass, and
// makes the rest again when the layer's backward begins.
func (r *rewriter) checkpoint() (string, error) {
	if slices.Contains(r.classes.Detail, classify.CheckpointInput) || slices.Contains(r.classes.Detail, classify.Recomputed) {
		return "", fmt.Errorf("the recorded program uses checkpointing already")
	}
	passes, err := r.forwardPasses()
	if err != nil {
		return "", err
	}
	most := 0
	for i := range passes {
		n := 0
		for _, l := range r.layersOf(passes[i].saved) {
			if r.checkpointLayers(&passes[i], l) {
				n += l.count
			}
		}
		if n > most && most == 0 {
			r.checkpointOlder(&passes[i], n)
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

// pass is a forward pass.
type pass struct {
	saved    []timeline.AllocationID // for its backward pass, in the order of their birth
	start    int                     // the event before the first of them is born
	backward int                     // the event with which its backward pass begins
	end      int                     // the event with which that ends
}

// backwardPasses are the first and the last events of each.
func (r *rewriter) backwardPasses() [][2]int {
	var list [][2]int
	spans := slices.Clone(r.classes.Before)
	for i := range r.classes.Steps {
		spans = append(spans, r.classes.Steps[i].Phases...)
	}
	for _, p := range spans {
		if p.Phase == classify.Backward {
			list = append(list, [2]int{p.FirstEvent, p.LastEvent})
		}
	}
	return list
}

// forwardPasses finds the passes and what they save.
func (r *rewriter) forwardPasses() ([]pass, error) {
	backward := r.backwardPasses()
	var passes []pass
	last, step, alone := -1, int32(0), (*classify.Step)(nil)
	for id, category := range r.classes.Category {
		a := timeline.AllocationID(id)
		if category != classify.Activations || r.classes.Phase[id] != classify.Forward || r.Timeline.BornAt(a) < 0 {
			continue
		}
		n := sort.Search(len(backward), func(i int) bool { return backward[i][0] >= r.Timeline.BornAt(a) })
		u := r.classes.UntrainedAt(r.Timeline.BornAt(a))
		// a loop that only runs forward has no backward passes to part them
		if n != last || u != alone || r.classes.Step[id] != step {
			end := r.Timeline.Device.Events.Len()
			passes = append(passes, pass{start: r.Timeline.BornAt(a) - 1, backward: end, end: end})
			if n < len(backward) {
				passes[len(passes)-1].backward, passes[len(passes)-1].end = backward[n][0], backward[n][1]
			}
			last, step, alone = n, r.classes.Step[id], u
		}
		p := &passes[len(passes)-1]
		p.saved = append(p.saved, a)
	}
	if len(passes) == 0 {
		return nil, fmt.Errorf("no activations were found in the recording")
	}
	for i := range passes[:len(passes)-1] {
		if p, next := &passes[i], &passes[i+1]; p.backward > next.start {
			p.backward, p.end = next.start, next.start // it has none
		}
	}
	return passes, nil
}

// layers are a part of a pass that repeats itself.
type layers struct {
	from, period, count int // in what the pass saves
}

// mostStacks bounds the parts of a pass that repeat themselves in their own
// way, such as an encoder and a decoder; leastShare is what a part must have
// of the pass, in percent of its bytes.
const (
	mostStacks = 4
	leastShare = 5
)

// layersOf finds the parts of a pass that repeat themselves, longest first.
func (r *rewriter) layersOf(saved []timeline.AllocationID) []layers {
	keys := make([]savedKey, len(saved))
	sums := make([]int64, len(saved)+1)
	for i, id := range saved {
		keys[i] = savedKey{r.Timeline.Requested(id), uint32(r.Timeline.Stack(id))}
		sums[i+1] = sums[i] + keys[i].bytes
	}
	best := func(from, to int) (l layers, bytes int64) {
		for _, d := range distances(keys[from:to]) {
			run := 0
			for i := from; i <= to-d; i++ {
				if i < to-d && keys[i] == keys[i+d] {
					run++
					continue
				}
				if n := (run + d) / d; n > 1 {
					if b := sums[i-run+n*d] - sums[i-run]; b > bytes {
						l, bytes = layers{i - run, d, n}, b
					}
				}
				run = 0
			}
		}
		return l, bytes
	}
	var found []layers
	open := [][2]int{{0, len(saved)}}
	for len(open) > 0 && len(found) < mostStacks {
		part := open[0]
		open = open[1:]
		l, bytes := best(part[0], part[1])
		if bytes*100 < sums[len(saved)]*leastShare || bytes == 0 {
			continue
		}
		// The first layer's input is made elsewhere than those of the others.
		for l.from-l.period >= part[0] && sameSizes(keys[l.from-l.period:l.from], keys[l.from:l.from+l.period]) {
			l.from, l.count = l.from-l.period, l.count+1
		}
		found = append(found, l)
		open = append(open, [2]int{part[0], l.from}, [2]int{l.from + l.count*l.period, part[1]})
	}
	return found
}

// savedKey is what a tensor has in common with those of other layers.
type savedKey struct {
	bytes int64
	stack uint32
}

func sameSizes(a, b []savedKey) bool {
	return slices.EqualFunc(a, b, func(x, y savedKey) bool { return x.bytes == y.bytes })
}

// distances are how far apart equal keys lie, the most frequent first.
func distances(keys []savedKey) []int {
	last := map[savedKey]int{}
	votes := map[int]int{}
	for i, k := range keys {
		if at, ok := last[k]; ok {
			votes[i-at]++
		}
		last[k] = i
	}
	list := make([]int, 0, len(votes))
	for d := range votes {
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b int) int {
		if votes[a] != votes[b] {
			return votes[b] - votes[a]
		}
		return a - b
	})
	return list[:min(len(list), 8)]
}

// layer is one of the layers of a pass.
type layer struct {
	saved      []timeline.AllocationID
	start, end int                            // of its forward, in events
	first      int                            // the first death of its backward; the number of events when there is none
	last       int                            // the last one
	kept       map[timeline.AllocationID]bool // inputs of layers that are saved anyway
	least      int64                          // bytes from which on a tensor isn't just a statistic of a layer's input
}

// inputShare is how many times larger than a layer's input its largest tensor
// may be: statistics and masks are smaller still.
const inputShare = 256

// checkpointLayers rewrites the lives of what a part of a pass saves. It tells
// whether there was anything that needn't be kept.
func (r *rewriter) checkpointLayers(p *pass, l layers) bool {
	events := r.Timeline.Device.Events.Len()
	list := r.layersIn(p, l)
	if large := slices.DeleteFunc(slices.Clone(list[0].saved), func(id timeline.AllocationID) bool {
		return r.Timeline.Requested(id) < list[0].least
	}); len(large) < 2 {
		return false // one tensor for each layer is all that checkpointing keeps
	}
	before := p.saved[max(0, l.from-l.period):l.from]
	some := false
	for k := range list {
		x := &list[k]
		if id, ok := r.inputOf(x); ok {
			r.inputs = append(r.inputs, r.Timeline.Requested(id))
		}
		if !r.takesSaved(before, x) {
			r.keepInput(x)
		}
		for _, id := range x.saved {
			if r.Timeline.FreedAt(id) > x.end && !x.kept[id] && (x.first == events || r.Timeline.FreedAt(id) >= x.first) {
				r.remake(id, x.end, x.first)
				some = true
			}
		}
		r.castAgain(p, x)
		before = x.saved
	}
	return some
}

// layersIn tells the layers of a part of a pass apart.
func (r *rewriter) layersIn(p *pass, l layers) []layer {
	list := make([]layer, l.count)
	for k := range list {
		from := l.from + k*l.period
		x := &list[k]
		x.saved = p.saved[from : from+l.period]
		x.start, x.end = r.Timeline.BornAt(x.saved[0])-1, r.Timeline.BornAt(x.saved[l.period-1])
		if from+l.period < len(p.saved) {
			x.end = r.Timeline.BornAt(p.saved[from+l.period]) - 1
		}
		for _, id := range x.saved {
			x.last = max(x.last, r.Timeline.FreedAt(id))
			x.least = max(x.least, r.Timeline.Requested(id)/inputShare)
		}
	}
	after := p.saved[l.from+l.period*l.count:]
	after = after[:min(len(after), tail)]
	kept := r.savedInputs(list, after)
	for k := range list {
		list[k].kept = kept
	}
	r.findBackward(p, list, after)
	return list
}

// tail is how many tensors after the last layer are looked at to tell where
// their backward ends.
const tail = 6

// findBackward tells the backward passes of layers apart: what a layer saved
// for itself dies after all that later layers did. What it passed on to the
// next one dies with that.
func (r *rewriter) findBackward(p *pass, list []layer, tail []timeline.AllocationID) {
	events := r.Timeline.Device.Events.Len()
	after := p.backward - 1
	for _, id := range tail {
		if d := r.Timeline.FreedAt(id); d < list[len(list)-1].last {
			after = max(after, d)
		}
	}
	for k := len(list) - 1; k >= 0; k-- {
		x := &list[k]
		x.first = events
		for _, id := range x.saved {
			if d := r.Timeline.FreedAt(id); d > after && !x.kept[id] {
				x.first = min(x.first, d)
			}
		}
		if x.last < events {
			after = max(after, x.last)
		}
	}
}

// savedInputs are the inputs of layers, and of what follows them, that are
// saved anyway: what a layer saved last, when nothing else was made after it
// that the next one begins with.
func (r *rewriter) savedInputs(list []layer, tail []timeline.AllocationID) map[timeline.AllocationID]bool {
	kept := map[timeline.AllocationID]bool{}
	for k := range list {
		if id, ok := r.inputOf(&list[k]); ok && r.classes.Category[id] == classify.Activations {
			kept[id] = true
		}
	}
	if len(tail) > 0 {
		x := layer{saved: tail, start: r.Timeline.BornAt(tail[0]) - 1, least: list[0].least}
		if id, ok := r.inputOf(&x); ok && r.classes.Category[id] == classify.Activations {
			kept[id] = true
		}
	}
	return kept
}

// takesSaved tells whether a layer's input is among the tensors that were
// saved before it.
func (r *rewriter) takesSaved(before []timeline.AllocationID, x *layer) bool {
	for _, id := range before {
		if d := r.Timeline.FreedAt(id); d >= x.first && d <= x.last && r.Timeline.Requested(id) >= x.least {
			return true
		}
	}
	return false
}

// mostBetween bounds the search for a layer's input, in allocations.
const mostBetween = 256

// inputOf is the input of a layer by the order of births: of what is alive
// when the layer begins, the last that was made.
func (r *rewriter) inputOf(x *layer) (timeline.AllocationID, bool) {
	first := int(x.saved[0])
	for i := first - 1; i >= max(0, first-mostBetween) && r.Timeline.BornAt(timeline.AllocationID(i)) >= 0; i-- {
		if id := timeline.AllocationID(i); r.Timeline.FreedAt(id) > x.start && r.Timeline.Requested(id) >= x.least {
			return id, true
		}
	}
	return 0, false
}

// keepInput keeps the input of a layer that the recorded program had no need
// to save.
func (r *rewriter) keepInput(x *layer) {
	id, ok := r.inputOf(x)
	if ok && r.classes.Category[id] != classify.Activations && r.Timeline.FreedAt(id) < x.last {
		r.extra(r.bytes[id], r.Timeline.FreedAt(id), x.last)
	}
}

// checkpointOlder frees what a pass before the recording saved and no backward
// pass uses any more, but for as many inputs as there are layers.
func (r *rewriter) checkpointOlder(p *pass, layers int) {
	if len(r.inputs) == 0 {
		return
	}
	input, kept := slices.Max(r.inputs), 0
	r.of(classify.Activations, func(id timeline.AllocationID) {
		if r.Timeline.BornAt(id) >= 0 || r.Timeline.FreedAt(id) >= p.backward {
			return
		}
		if r.Timeline.Requested(id) == input && kept < layers {
			kept++
			return
		}
		r.bytes[id] = 0
	})
}

// remake frees an allocation after one event and makes it again before another.
func (r *rewriter) remake(id timeline.AllocationID, free, again int) {
	r.release(id, free)
	if again > free+1 && again < r.Timeline.Device.Events.Len() {
		r.revive(id, again-1)
	}
}

// castAgain frees autocast's copies of a layer's weights when the forward pass
// is over, which ends autocast, and makes them again for its backward pass.
func (r *rewriter) castAgain(p *pass, x *layer) {
	for id := x.saved[0]; id <= x.saved[len(x.saved)-1]; id++ {
		if r.classes.Category[id] == classify.AutocastCopies && r.Timeline.FreedAt(id) > p.backward {
			r.remake(id, p.backward-1, x.first)
		}
	}
}
