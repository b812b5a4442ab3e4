package phases

import (
	"sort"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// hintRhythm marks backward passes and what follows from them.
func (a phaseFinder) hintRhythm() {
	for _, r := range a.Roots {
		suppose(a.hints[r.first:r.end+1], meaning.Backward)
	}
	a.hintClosures()
	// What lies between two known parts is forward, its first allocations that
	// outlive the pass are the batch.
	from := a.rhythmStart()
	for n, r := range a.Roots {
		from = a.hintUpdates(from, r.first, n > 0)
		a.hintForward(from, r.first, r.end)
		from = r.end + 1
	}
	if from < a.Last {
		from = a.hintUpdates(from, a.Last, len(a.Roots) > 0)
		a.hintForward(from, a.Last, a.Last)
	}
}

// hintUpdates divides the unknown events up to the last step of an optimizer
// before a backward pass, and tells where that ends. Between a backward pass and
// the step that follows gradients are clipped and scaled; other steps are of
// iterations whose backward pass wasn't seen.
func (a phaseFinder) hintUpdates(from, to int, trained bool) int {
	for {
		first, end := a.tickAfter(from, to)
		if end < 0 {
			return from
		}
		if !trained {
			suppose(a.hints[from:first], meaning.Forward)
		}
		suppose(a.hints[from:end], meaning.Optimizer)
		from, trained = end, false
	}
}

// tickAfter is the first of an optimizer's steps that ends between two events:
// its first event and its end, or that of the last of several optimizers that
// step with hardly anything in between; an end of -1 when there is none.
func (a *Program) tickAfter(from, to int) (first, end int) {
	const hardly = 8 // allocations
	end = -1
	i := sort.Search(len(a.Windows), func(i int) bool { return a.Windows[i].first > from })
	for ; i < len(a.Windows) && a.Windows[i].first <= to; i++ {
		w := a.Windows[i]
		if w.phase != meaning.Optimizer || w.fused || w.end > to {
			continue
		}
		if end < 0 {
			first, end = w.first, w.end
			continue
		}
		made := 0
		for k := end; k < w.first && made <= hardly; k++ {
			if a.Events.Action[k] == snapshot.Alloc {
				made++
			}
		}
		if made > hardly {
			break
		}
		end = max(end, w.end)
	}
	return first, end
}

// hintForward divides the unknown events before a backward pass.
func (a phaseFinder) hintForward(from, to, end int) {
	batch := a.batchEnd(from, to, end)
	lastEnd, first := a.Last, false
	if n := len(a.Roots); n > 0 {
		lastEnd, first = a.Roots[n-1].first, a.Roots[0].first == to && !a.modelIsOlder()
	}
	goes := a.seeBatches(from, batch, first)
	kept := false
	for i := from; i < to; i++ {
		if a.hints[i] != 0 {
			continue
		}
		if a.Events.Action[i] == snapshot.Alloc {
			n := a.Events.Size[i] // a batch is kept, too, that a queue has at its end
			kept = a.Outlives(a.Timeline.Of[i]) && end < lastEnd && (i < goes[n] || !a.batches[n])
		}
		switch {
		case i >= batch:
			a.hints[i] = meaning.HintOf(meaning.Forward)
		case kept:
			a.hints[i] = meaning.HintOf(meaning.OtherPhase)
		default:
			a.hints[i] = meaning.HintOf(meaning.Data)
		}
	}
}

// seeBatches notes the sizes of batches, of the first one all, of others what goes some
// day, and gives for each size the last that does.
func (a phaseFinder) seeBatches(from, to int, first bool) map[int64]int {
	goes := map[int64]int{}
	for i := from; i < to; i++ {
		n, id := a.Events.Size[i], a.Timeline.Of[i]
		if a.Events.Action[i] != snapshot.Alloc || !first && a.Outlives(id) {
			continue
		}
		if a.batches[n] = true; !a.Outlives(id) {
			goes[n] = i
		}
	}
	return goes
}

// batchEnd is where the batch has been loaded: what an iteration begins with and
// what outlives its backward, with a few short-lived helpers in between. A pass that
// was cut off leaves what its forward saved, too.
func (a *Program) batchEnd(from, to, end int) int {
	most := 3 // helpers
	if end >= a.Last-1 || a.FailedBetween(to, end) {
		most = 0
	}
	batch, helpers := from, 0
	for i := from; i < to && helpers <= most; i++ {
		if a.Events.Action[i] != snapshot.Alloc {
			continue
		}
		switch f := a.Freed(a.Timeline.Of[i]); {
		case f > end:
			batch = i + 1
		case f-i <= 16:
			helpers++
		default:
			helpers = 4
		}
	}
	for batch > from && batch < to && a.Events.Action[batch] != snapshot.Alloc {
		batch++
	}
	return batch
}

// rhythmStart is where the loop begins in a recording without stacks: what was
// made before stays, what forward makes is freed by the end of its backward. The
// batch before it is as long as the second one.
//
// complexity: scores each event as a possible start, with every exception beside it
func (a *Program) rhythmStart() int {
	// no pass frees all that its forward made
	if len(a.Roots) == 0 || a.Roots[0].end >= a.Last-1 || a.FailedBetween(a.Roots[0].first, a.Roots[0].end) {
		return a.firstShortLived()
	}
	if a.modelIsOlder() {
		return 0
	}
	one := a.allocsBefore(a.Roots[0].first, 0)
	best, score, at := 0, 0, len(one)
	stays := map[int64]bool{}
	for _, i := range one {
		stays[a.Events.Size[i]] = stays[a.Events.Size[i]] || a.Outlives(a.Timeline.Of[i])
	}
	limit := a.Roots[min(3, len(a.Roots)-1)].end // an iteration may have several backward passes
	for k := len(one) - 1; k >= 0; k-- {
		switch f := a.Freed(a.Timeline.Of[one[k]]); {
		case a.Unpacked[a.Timeline.Of[one[k]]]:
			score--
		case f-one[k] <= 16 || a.CastAway(a.Timeline.Of[one[k]]): // a helper, as there are in setup too
		case f < a.Roots[0].first && f-one[k] > 64 && stays[a.Events.Size[one[k]]]: // or a weight that was copied
		case f <= limit:
			score++
		default:
			score--
		}
		if score >= best {
			best, at = score, k
		}
	}
	if at == len(one) {
		return a.Roots[0].first
	}
	if len(a.Roots) > 1 {
		for _, i := range a.allocsBefore(a.Roots[1].first, a.Roots[0].end) {
			if at == 0 || a.Freed(a.Timeline.Of[i]) <= a.Roots[1].end ||
				a.Outlives(a.Timeline.Of[one[at-1]]) && a.Events.Size[one[at-1]] != a.Events.Size[i] {
				break
			}
			at--
		}
	}
	return one[at]
}

// modelIsOlder reports whether the trace began after the model was made: blocks in
// numbers were there before and stay.
func (a *Program) modelIsOlder() bool {
	const some = 8
	n := 0
	for id := range timeline.AllocationID(a.Timeline.Older()) {
		if a.Outlives(id) && a.Timeline.Requested(id) > Scalar {
			n++
		}
	}
	return n >= some
}

// allocsBefore lists the allocations' events before an event, back to another.
func (a *Program) allocsBefore(event, from int) []int {
	if t := a.tickIn(from, event); t >= 0 {
		from = t
	}
	var out []int
	for i := from; i < event; i++ {
		if a.Events.Action[i] == snapshot.Alloc {
			out = append(out, i)
		}
	}
	return out
}

// CastAway reports whether an allocation goes when one of its size, of half or of
// twice that is there, which stays, or a flat buffer for all: a weight of a
// module that is brought to another memory format or type, or packed.
func (a *Program) CastAway(id timeline.AllocationID) bool {
	const near = 4 // events
	if len(a.Unpacked) > 0 && a.Unpacked[id] {
		return true
	}
	f, n := a.Freed(id), a.Timeline.Requested(id)
	if f >= a.Last {
		return false
	}
	for i := f - 1; i >= max(0, f-near); i-- {
		if a.Events.Action[i] == snapshot.Alloc {
			m := a.Events.Size[i]
			return (m == n || m*2 == n || n*2 == m) && (a.Outlives(a.Timeline.Of[i]) || a.Unpacked[a.Timeline.Of[i]])
		}
	}
	return false
}

// firstShortLived is the first allocation that is freed again but not at once,
// nor for the same in another type; or what a matrix library works in. Where
// nothing is freed but by the error of a request that failed, there is no loop.
func (a *Program) firstShortLived() int {
	first := a.Last
	for i, action := range a.Events.Action {
		if action != snapshot.Alloc {
			continue
		}
		id := a.Timeline.Of[i]
		f := a.Freed(id)
		short := f < a.Last && !a.CastAway(id)
		if short && f-i > 4 || a.IsWorkspaceBySize(id) {
			first = min(first, i)
		}
		if first < a.Last && short && !a.FailedBetween(i, f) {
			return first
		}
	}
	return a.Last
}
