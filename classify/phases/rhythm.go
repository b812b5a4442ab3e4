package phases

import (
	"iter"
	"slices"
	"sort"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Rhythm tells what lies between backward passes, without stacks.
var Rhythm = &Signal{
	ID: "rhythm",
	Doc: `Without stacks, what lies between two backward passes is the optimizer's up to the end of its last step, then the
batch, then forward. What setup made stays, what forward makes is freed by the end of its backward pass, and the batch, too,
but later. Where no backward pass is seen, the loop begins with the first thing that goes neither at once nor for the same in
another type.`,
	Needs: []Need{NoStacks},
	Find: func(f *facts) found {
		a := rhythm{facts: f, batches: map[int64]bool{}, spans: &spans{}}
		start := a.start()
		from := start
		for n, r := range a.roots {
			from = a.updates(from, r.first, n > 0)
			a.forward(from, r.first, r.end)
			from = r.end + 1
		}
		if from < a.Last {
			from = a.updates(from, a.Last, len(a.roots) > 0)
			a.forward(from, a.Last, a.Last)
		}
		return found{spans: *a.spans, loop: &start}
	},
}

type rhythm struct {
	*facts
	batches map[int64]bool // sizes of batches
	spans   *spans
}

// updates divides the unknown events up to the last step of an optimizer before a backward pass, and tells where that ends.
// Between a backward pass and the step that follows gradients are clipped and scaled; other steps are of iterations whose
// backward pass wasn't seen.
func (a rhythm) updates(from, to int, trained bool) int {
	for {
		first, end := a.tickAfter(from, to)
		if end < 0 {
			return from
		}
		if !trained {
			a.spans.add(from, first, meaning.Forward)
			from = max(from, first)
		}
		a.spans.add(from, end, meaning.Optimizer)
		from, trained = end, false
	}
}

// tickAfter is the first of an optimizer's steps that ends between two events: its first event and its end, or that of the
// last of several optimizers that step with hardly anything in between; an end of -1 when there is none.
func (a rhythm) tickAfter(from, to int) (first, end int) {
	const hardly = 8 // allocations
	end = -1
	for w := range a.steps(from, to) {
		if end < 0 {
			first = w.first
		} else if a.made(end, w.first) > hardly {
			break
		}
		end = max(end, w.end)
	}
	return first, end
}

// steps are the windows of optimizers between two events.
func (a rhythm) steps(from, to int) iter.Seq[window] {
	return func(yield func(window) bool) {
		i := sort.Search(len(a.Windows), func(i int) bool { return a.Windows[i].first > from })
		for ; i < len(a.Windows) && a.Windows[i].first <= to; i++ {
			if w := a.Windows[i]; w.phase == meaning.Optimizer && !w.fused && w.end <= to && !yield(w) {
				return
			}
		}
	}
}

// forward divides the unknown events before a backward pass.
func (a rhythm) forward(from, to, end int) {
	batch := a.batchEnd(from, to, end)
	lastEnd, first := a.Last, false
	if n := len(a.roots); n > 0 {
		lastEnd, first = a.roots[n-1].first, a.roots[0].first == to && !a.modelIsOlder()
	}
	goes := a.seeBatches(from, batch, first)
	kept := false
	for i := from; i < batch; i++ {
		if a.hints[i] != 0 {
			continue
		}
		if a.Events.Action[i] == snapshot.Alloc {
			n := a.Events.Size[i] // a batch is kept, too, that a queue has at its end
			kept = a.Outlives(a.Timeline.Of[i]) && end < lastEnd && (i < goes[n] || !a.batches[n])
		}
		p := meaning.Data
		if kept {
			p = meaning.OtherPhase
		}
		a.spans.add(i, i+1, p)
	}
	a.spans.add(batch, to, meaning.Forward)
}

// seeBatches notes the sizes of batches, of the first one all, of others what goes some day, and gives for each size the last
// that does.
func (a rhythm) seeBatches(from, to int, first bool) map[int64]int {
	goes := map[int64]int{}
	for i := range a.allocs(from, to) {
		n, stays := a.Events.Size[i], a.Outlives(a.Timeline.Of[i])
		a.batches[n] = a.batches[n] || first || !stays
		if !stays {
			goes[n] = i
		}
	}
	return goes
}

// start is where the loop begins in a recording without stacks: what was made before stays, what forward makes is freed by
// the end of its backward. The batch before it is as long as the second one.
func (a rhythm) start() int {
	// no pass frees all that its forward made
	if len(a.roots) == 0 || a.roots[0].end >= a.Last-1 || a.FailedBetween(a.roots[0].first, a.roots[0].end) {
		return a.firstShortLived()
	}
	if a.modelIsOlder() {
		return 0
	}
	one := a.allocsBefore(a.roots[0].first, 0)
	best, score, at := 0, 0, len(one)
	stays := map[int64]bool{}
	for _, i := range one {
		if a.Outlives(a.Timeline.Of[i]) {
			stays[a.Events.Size[i]] = true
		}
	}
	limit := a.roots[min(3, len(a.roots)-1)].end // an iteration may have several backward passes
	for k := len(one) - 1; k >= 0; k-- {
		switch f := a.Freed(a.Timeline.Of[one[k]]); {
		case a.unpacked[a.Timeline.Of[one[k]]]:
			score--
		case f-one[k] <= 16 || a.castAway(a.Timeline.Of[one[k]]): // a helper, as there are in setup too
		case f < a.roots[0].first && f-one[k] > 64 && stays[a.Events.Size[one[k]]]: // or a weight that was copied
		case f <= limit:
			score++
		default:
			score--
		}
		if score >= best {
			best, at = score, k
		}
	}
	at = min(at, a.asSecond(one))
	if at == len(one) {
		return a.roots[0].first
	}
	if len(a.roots) > 1 {
		for _, i := range a.allocsBefore(a.roots[1].first, a.roots[0].end) {
			if at == 0 || a.Freed(a.Timeline.Of[i]) <= a.roots[1].end ||
				a.Outlives(a.Timeline.Of[one[at-1]]) && a.Events.Size[one[at-1]] != a.Events.Size[i] {
				break
			}
			at--
		}
	}
	return one[at]
}

// asSecond is where, among what is made before the first backward pass, begins what is made in the same sizes before the
// second, and stays or goes as that does: passes may free nothing of what they make.
func (a rhythm) asSecond(first []int) int {
	n, same := len(first), 0
	if len(a.roots) > 1 {
		second := a.allocsBefore(a.roots[1].first, a.roots[0].end)
		for k := len(second) - 1; k >= 0 && same < n; k-- {
			x, y := a.Timeline.Of[first[n-1-same]], a.Timeline.Of[second[k]]
			if a.Timeline.Requested(x) != a.Timeline.Requested(y) || a.Outlives(x) != a.Outlives(y) {
				break
			}
			same++
		}
	}
	if same < shortest {
		return n
	}
	return n - same
}

// modelIsOlder reports whether the trace began after the model was made: blocks in numbers were there before and stay.
func (a rhythm) modelIsOlder() bool {
	const some = 8
	n := 0
	for id := range timeline.AllocationID(a.Timeline.Older()) {
		n += AsInt(a.Outlives(id) && a.Timeline.Requested(id) > Scalar)
	}
	return n >= some
}

// allocsBefore lists the allocations' events before an event, back to another or to the last end of an optimizer's step
// between them.
func (a rhythm) allocsBefore(event, from int) []int {
	for w := range a.steps(from, event) {
		from = w.end
	}
	return slices.Collect(a.allocs(from, event))
}

// castAway reports whether an allocation goes when one of its size, of half or of twice that is there, which stays, or a flat
// buffer for all: a weight of a module that is brought to another memory format or type, or packed.
func (a *facts) castAway(id timeline.AllocationID) bool {
	const near = 4 // events
	f, n := a.Freed(id), a.Timeline.Requested(id)
	if f >= a.Last || a.unpacked[id] {
		return a.unpacked[id]
	}
	cast := false
	for i := range a.allocs(max(0, f-near), f) {
		m := a.Events.Size[i]
		cast = (m == n || m*2 == n || n*2 == m) && (a.Outlives(a.Timeline.Of[i]) || a.unpacked[a.Timeline.Of[i]])
	}
	return cast
}

// firstShortLived is the first allocation that is freed again but not at once, nor for the same in another type; or what a
// matrix library works in. Where nothing is freed but by the error of a request that failed, there is no loop.
func (a *facts) firstShortLived() int {
	first := a.Last
	for i := range a.allocs(0, a.Last) {
		id := a.Timeline.Of[i]
		f := a.Freed(id)
		short := f < a.Last && !a.castAway(id)
		if short && f-i > 4 || a.IsWorkspaceBySize(id) {
			first = min(first, i)
		}
		if first < a.Last && short && !a.FailedBetween(i, f) {
			return first
		}
	}
	return a.Last
}
