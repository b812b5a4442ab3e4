package phases

import (
	"slices"
	"sort"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// root is the run of a backward pass, found without stacks: the gradient of the
// loss is one number that lives from the first event of backward to the last,
// while what forward had saved is freed.
type root struct {
	first, end int   // events: its birth and its free
	released   int64 // allocations that were born before it and freed during it
}

// Scalar is the largest request that can be one number.
const Scalar = 8

// shortest is how many events a backward pass has at least.
const shortest = 12

// rootGradients finds backward passes by their root gradients, where stacks don't show them.
type rootGradients struct{ *Program }

// find gives the backward passes by their root gradients.
func (a rootGradients) find() []root {
	released := newReleases(a.Last)
	pending := map[timeline.AllocationID]int64{}
	var found []root
	var alive []numberAlive
	failed, atFailure := a.Last, released // what the last error unwinds, no backward pass releases
	if n := len(a.OOMs); n > 0 {
		failed = a.OOMs[n-1]
	}
	for i, action := range a.Events.Action {
		if i == failed {
			atFailure = released.clone()
		}
		switch action {
		case snapshot.Alloc:
			id := a.Timeline.Of[i]
			if a.Timeline.Requested(id) <= Scalar {
				switch f := a.Freed(id); {
				case f >= a.Last:
					alive = append(alive, numberAlive{i, released.bornBefore(i)})
				case f-i >= shortest:
					pending[id] = released.bornBefore(i)
				}
			}
		case snapshot.FreeRequested:
			id := a.Timeline.Of[i]
			if id == timeline.NoAllocation {
				continue
			}
			b := a.Born(id)
			if before, ok := pending[id]; ok {
				delete(pending, id)
				by := released
				if b < failed && failed < i {
					by = atFailure
				}
				if d := by.bornBefore(b) - before; d > 0 && !a.stepsWithin(b, i) {
					found = append(found, root{b, i, d})
				}
			}
			if a.Covered[i] == 0 && i-b >= shortest { // not gradients, not what an operator needs for itself
				released.add(b, 1)
			}
		}
	}
	roots := a.weighty(proportioned(a.gradual(a.cutShort(keepRoots(found)))))
	if r, ok := a.unfinished(alive, released, roots); ok {
		roots = append(roots, r)
	}
	if len(roots) == 0 {
		roots = a.rootsByWeights()
	}
	return a.withFirst(roots)
}

// stepsWithin tells whether an optimizer or zero_grad runs between two events,
// or at the second: nothing of a backward pass does that.
func (a *Program) stepsWithin(from, to int) bool {
	if a.Covered[to] != 0 && !a.IsFused(to) {
		return true
	}
	i := sort.SearchInts(a.stepping, from+1)
	return i < len(a.stepping) && a.stepping[i] <= to
}

// keepRoots keeps the innermost of intervals that release nearly the same, for
// the loss lives around the root gradient, and the later of two that overlap,
// for what forward saved goes early in backward.
func keepRoots(found []root) []root {
	sort.Slice(found, func(i, j int) bool { return found[i].first < found[j].first })
	const look = 400 // how many later scalars are compared
	var inner []root
	for i, r := range found {
		dominated := false
		for _, s := range found[i+1 : min(len(found), i+1+look)] {
			if s.first >= r.end {
				break
			}
			if s.end <= r.end && s.released*4 >= r.released*3 || s.end > r.end && s.released*10 >= r.released {
				dominated = true
				break
			}
		}
		if !dominated {
			inner = append(inner, r)
		}
	}
	var largest int64
	for _, r := range inner {
		largest = max(largest, r.released)
	}
	var out []root
	for _, r := range inner {
		if r.released*20 < largest {
			continue
		}
		if n := len(out); n > 0 && r.first < out[n-1].end {
			if r.released > out[n-1].released {
				out[n-1] = r
			}
			continue
		}
		out = append(out, r)
	}
	return out
}

// releases sums freed bytes by when they were born, in a binary indexed tree
// over groups of events.
type releases struct {
	sums  []int64
	group int // events per leaf
}

func newReleases(events int) *releases {
	group := 1
	if events > 1<<18 {
		group = 16
	}
	return &releases{make([]int64, events/group+3), group}
}

func (r *releases) clone() *releases { return &releases{slices.Clone(r.sums), r.group} }

func (r *releases) add(born int, bytes int64) {
	for i := (born+r.group)/r.group + 1; i < len(r.sums); i += i & -i {
		r.sums[i] += bytes
	}
}

// bornBefore is the sum of what was born before the group of an event.
func (r *releases) bornBefore(event int) int64 {
	var sum int64
	for i := (event + r.group) / r.group; i > 0; i -= i & -i {
		sum += r.sums[i]
	}
	return sum
}

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
	lastEnd := a.Last
	if n := len(a.Roots); n > 0 {
		lastEnd = a.Roots[n-1].first
	}
	kept := false
	for i := from; i < to; i++ {
		if a.hints[i] != 0 {
			continue
		}
		if a.Events.Action[i] == snapshot.Alloc {
			kept = a.Outlives(a.Timeline.Of[i]) && end < lastEnd // a batch goes some day
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
	limit := a.Roots[min(3, len(a.Roots)-1)].end // an iteration may have several backward passes
	for k := len(one) - 1; k >= 0; k-- {
		switch f := a.Freed(a.Timeline.Of[one[k]]); {
		case f-one[k] <= 16 || a.CastAway(a.Timeline.Of[one[k]]): // a helper, as there are in setup too
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
			if at == 0 || a.Freed(a.Timeline.Of[i]) <= a.Roots[1].end || a.Outlives(a.Timeline.Of[one[at-1]]) {
				break
			}
			at--
		}
	}
	return one[at]
}

// modelIsOlder tells whether the trace began after the model was made: blocks in
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

// CastAway tells whether an allocation goes when one of its size, of half or of
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
