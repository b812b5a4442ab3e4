package phases

import (
	"slices"
	"sort"

	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// root is the run of a backward pass, found without stacks: the gradient of the loss is one scalar that lives from the first
// event of backward to the last, while what forward had saved is freed.
type root struct {
	first, end int   // events: its birth and its free
	released   int64 // allocations that were born before it and freed during it
	retained   bool  // none, but it leaves so many gradients (retain_graph=True)
}

// Scalar is the largest request that can be one scalar.
const Scalar = 8

// shortest is how many events a backward pass has at least.
const shortest = 12

// RootGradients finds backward passes by the gradient of their loss.
var RootGradients = &Signal{
	ID: "root-gradients",
	Doc: `One scalar lives exactly as long as the backward pass, the gradient of its loss, while what forward had saved is
freed in the opposite order of its birth. The freeing goes on between allocations, and no optimizer steps meanwhile. Where the
recording ends in the middle of a pass, the scalar is still there: with a failed request that is enough, without one the pass
must free what forward saved as others do. A number that a cache or a layer keeps is none, nor one of several losses, while what
the next pass frees is made. A pass that retains its graph frees nothing: there it counts that nearly all that stays has the
sizes of weights, those of the last ones first.`,
	Needs: []Need{NoStacks},
	Find:  func(f *facts) found { return found{roots: rootGradients{f}.find()} },
}

type rootGradients struct{ *facts }

// find gives the backward passes by their root gradients.
func (a rootGradients) find() []root {
	released := newReleases(a.Last)
	pending := map[timeline.AllocationID]int64{}
	passes := newRetainedPasses(a.facts)
	var found []root
	var alive []root                          // scalars that are there at the end, and what had been released when they were made
	failed, atFailure := a.failed(), released // what the last error unwinds, no backward pass releases
	for i, action := range a.Events.Action {
		if i == failed {
			atFailure = &releases{slices.Clone(released.sums), released.group}
		}
		switch id := a.Timeline.Of[i]; {
		case id == timeline.NoAllocation:
		case action == snapshot.Alloc && a.Timeline.Requested(id) <= Scalar:
			switch f := a.Freed(id); {
			case f >= a.Last:
				alive = append(alive, root{first: i, released: released.bornBefore(i)})
			case f-i >= shortest:
				pending[id] = released.bornBefore(i)
			}
		case action == snapshot.FreeRequested:
			b := a.Born(id)
			if before, ok := pending[id]; ok {
				delete(pending, id)
				by := released
				if b < failed && failed < i {
					by = atFailure
				}
				found = a.noted(found, b, i, by.bornBefore(b)-before, passes)
			}
			if a.Covered[i] == 0 && i-b >= shortest { // not gradients, not what an operator needs for itself
				released.add(b, 1)
			}
		}
	}
	roots := a.keep(found)
	if r, ok := a.unfinished(alive, released, roots); ok {
		roots = append(roots, r)
	}
	return roots
}

// noted adds the pass that a scalar lived through, by what it released or, where it retains its graph, left.
func (a rootGradients) noted(found []root, born, end int, released int64, passes *retainedPasses) []root {
	retained := false
	if released <= 0 {
		released, retained = passes.left(born, end), true
	}
	if released <= 0 || a.stepsWithin(born, end) {
		return found
	}
	return append(found, root{born, end, released, retained})
}

// failed is the event of the last failed request, or the last event.
func (a rootGradients) failed() int {
	if n := len(a.OOMs); n > 0 {
		return a.OOMs[n-1]
	}
	return a.Last
}

// keep leaves the backward passes among what was found; none where all retain their graph: weights-again looks at such
// programs as a whole.
func (a rootGradients) keep(found []root) []root {
	roots := a.weighty(proportioned(a.gradual(a.cutShort(a.withoutForward(a.keepRoots(found))))))
	if !slices.ContainsFunc(roots, func(r root) bool { return !r.retained }) {
		return nil
	}
	return roots
}

// stepsWithin reports whether an optimizer or zero_grad runs between two events, or at the second: nothing of a backward pass
// does that.
func (a *facts) stepsWithin(from, to int) bool {
	if a.Covered[to] != 0 && !a.IsFused(to) {
		return true
	}
	i := sort.SearchInts(a.stepping, from+1)
	return i < len(a.stepping) && a.stepping[i] <= to
}

// keepRoots keeps the innermost of intervals that release nearly the same, for the loss lives around the root gradient, or
// around those of all micro-batches, and the later of two that overlap, for what forward saved goes early in backward.
func (a rootGradients) keepRoots(found []root) []root {
	sort.Slice(found, func(i, j int) bool { return found[i].first < found[j].first })
	const look = 400 // how many later scalars are compared
	var inner []root
	for i, r := range found {
		dominated, within, end := false, int64(0), 0 // what those release that follow each other within
		for _, s := range found[i+1 : min(len(found), i+1+look)] {
			if s.first >= r.end {
				break
			}
			if a.dominates(s, r) {
				dominated = true
				break
			}
			if s.end <= r.end && s.first >= end {
				within, end = within+s.released, s.end
			}
		}
		if !dominated && (within*4 < r.released*3 || a.mirrored(r)) {
			inner = append(inner, r)
		}
	}
	var largest int64
	for _, r := range inner {
		largest = max(largest, r.released)
	}
	var out []root
	for _, r := range inner {
		switch n := len(out) - 1; {
		case r.released*20 < largest:
		case n < 0 || r.first >= out[n].end:
			out = append(out, r)
		case r.released > out[n].released:
			out[n] = r
		}
	}
	return out
}

// withoutForward drops what makes much of what the next run releases: it is forward's, while one of several losses is there.
func (a rootGradients) withoutForward(roots []root) []root {
	const many = 4 // times as much as it lets go
	return slices.DeleteFunc(slices.Clone(roots), func(r root) bool {
		k, _ := slices.BinarySearchFunc(roots, r.end, func(s root, end int) int { return s.first - end })
		return k < len(roots) && !r.retained && a.savedIn(r, roots[k]) > many*r.released
	})
}

// savedIn counts what is made in one run and goes in the next.
func (a rootGradients) savedIn(r, next root) (n int64) {
	for _, id := range a.frees(next.first, next.end) {
		b := a.Born(id)
		n += int64(AsInt(r.first < b && b < r.end))
	}
	return n
}

// dominates reports whether one of two overlapping runs is the pass rather than the one that begins before it.
func (a rootGradients) dominates(s, r root) bool {
	if s.end > r.end {
		return s.released*10 >= r.released
	}
	return s.released*4 >= r.released*3 || s.first-r.first < shortest && a.replaces(s, r)
}

// replaces reports whether most of what goes from the end of a run to that of one around it has its like made before it goes, and
// goes in no opposite order: an optimizer makes its state anew, while the loss is still there.
func (a rootGradients) replaces(within, r root) bool {
	made := map[int64]int{}
	for i := range a.allocs(within.end, r.end) {
		made[a.Events.Size[i]]++
	}
	all, like := 0, 0
	for _, id := range a.frees(within.end, r.end) {
		if n := a.Timeline.Requested(id); a.Born(id) < r.first {
			made[n]--
			all, like = all+1, like+AsInt(made[n] >= 0)
		}
	}
	return like*4 > all*3 && !a.mirrored(root{first: within.end, end: r.end})
}

// releases sums freed bytes by when they were born, in a binary indexed tree over groups of events.
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

// unfinished is the backward pass in which a recording ends: its root gradient is still there. Where no request failed, it
// must do what others do, too.
func (a rootGradients) unfinished(alive []root, released *releases, found []root) (root, bool) {
	const most, few, looks = 64, 8, 4 // numbers; releases; of the numbers that are looked at closely
	failed := len(a.OOMs) > 0 && a.made(a.OOMs[len(a.OOMs)-1], a.Last) == 0
	over := 0 // where the last pass that was seen to its end is
	if n := len(found); n > 0 {
		over = found[n-1].end
	}
	made, at, looked := int64(0), a.Last, 0
	for k := len(alive) - 1; k >= max(0, len(alive)-most) && looked < looks; k-- {
		x := alive[k]
		for ; at > x.first; at-- {
			if a.Events.Action[at-1] == snapshot.Alloc && a.Freed(a.Timeline.Of[at-1]) >= a.Last {
				made++
			}
		}
		r := root{first: x.first, end: a.Last - 1, released: released.bornBefore(x.first) - x.released}
		if x.first <= over || r.released < few || r.released*4 < made {
			continue
		}
		// numbers that each layer keeps for its backward pass, such as seeds of attention, have the same surroundings
		own := a.surroundings(x.first)
		kept := func(x root) bool { return a.surroundings(x.first) == own }
		looked++
		if failed && !slices.ContainsFunc(alive[max(0, k-most):k], kept) || len(a.gradual([]root{r})) > 0 {
			return r, true
		}
	}
	return root{}, false
}

// surroundings are the sizes of the requests before and after an event.
func (a *facts) surroundings(event int) (sizes [2]int64) {
	for k, step := range [...]int{-1, 1} {
		for i := event + step; 0 <= i && i < a.Last && sizes[k] == 0; i += step {
			if a.Events.Action[i] == snapshot.Alloc {
				sizes[k] = a.Events.Size[i]
			}
		}
	}
	return sizes
}

// cutShort drops one that the last failed request cut short, unless it had freed what was there before it rather than made
// more: a number that a layer keeps for backward goes with all else when the error unwinds.
func (a rootGradients) cutShort(roots []root) []root {
	if len(a.OOMs) == 0 {
		return roots
	}
	failed := a.OOMs[len(a.OOMs)-1]
	return slices.DeleteFunc(roots, func(r root) bool {
		made := int64(0)
		for i := range a.allocs(r.first, failed) {
			made += int64(AsInt(a.Freed(a.Timeline.Of[i]) > failed))
		}
		return r.first <= failed && failed <= r.end && r.released*4 < made
	})
}

// gradual keeps those during which the freeing goes on between allocations: an output that holds a graph until the next one
// is there frees it at once.
func (a rootGradients) gradual(roots []root) []root {
	const few, least = 8, 6 // frees without an allocation in between; allocations of the smallest backward
	var out []root
	for _, r := range roots {
		together, spread, all, made := 0, 0, 0, 0
		for i := r.first; i <= r.end; i++ {
			id := a.Timeline.Of[i]
			switch {
			case id == timeline.NoAllocation || a.Covered[i] != 0:
			case a.Events.Action[i] == snapshot.Alloc:
				if together <= few {
					spread += together
				}
				together = 0
				made++
			case a.Events.Action[i] == snapshot.FreeRequested && a.Born(id) < r.first:
				together++
				all++
			}
		}
		// Every saved tensor serves a gradient.
		if r.retained || spread*3 >= all && made >= least && made*2 >= all && !nextToNothing(all, made) && a.mirrored(r) {
			out = append(out, r)
		}
	}
	return out
}

// nextToNothing is true of a few frees among very many allocations: what a number of a request lives through.
func nextToNothing(frees, made int) bool {
	const few, most = 8, 128
	return frees < few && made > most*frees
}

// proportioned drops those that take many times as long as anything between them: a number that a request makes after its
// prompt may live through all of its tokens.
func proportioned(roots []root) []root {
	const times = 12
	if len(roots) < 2 {
		return roots // what came before it may be older than the trace
	}
	longest := 0 // events
	for i := range roots[1:] {
		longest = max(longest, roots[i+1].first-roots[i].end)
	}
	return slices.DeleteFunc(roots, func(r root) bool { return r.end-r.first > times*longest })
}

// weighty drops all of them where they free next to nothing of what was made before them: masks and positions are worked out
// around numbers, too, once in every pass.
func (a rootGradients) weighty(roots []root) []root {
	const part = 1000
	var within, all int64 // bytes
	n := 0
	for i, id := range a.frees(0, a.Last) {
		b := a.Born(id)
		if len(roots) == 0 || b < 0 || i-b < shortest {
			continue
		}
		all += a.Timeline.Requested(id)
		for n < len(roots)-1 && roots[n].end < i {
			n++
		}
		if r := roots[n]; b < r.first && r.first <= i && i <= r.end {
			within += a.Timeline.Requested(id)
		}
	}
	if within < all/part {
		return slices.DeleteFunc(roots, func(r root) bool { return !r.retained })
	}
	return roots
}

// mirrored reports whether what is freed during a run goes in the opposite order of its birth, as saved tensors do and caches
// don't: what the first half of the frees lets go was born after what the second half does. Of what is older than the trace
// the order isn't known.
func (a rootGradients) mirrored(r root) bool {
	const several = 8
	var births []int
	older := 0
	for i, id := range a.frees(r.first, r.end) {
		switch b := a.Born(id); {
		case a.Covered[i] != 0:
		case b < 0:
			older++
		case b < r.first:
			births = append(births, b)
		}
	}
	if older > len(births) && len(births) < several {
		return true
	}
	later := 0 // than the one that goes next
	for k := range births[min(1, len(births)):] {
		later += AsInt(births[k] > births[k+1])
	}
	if later*4 > len(births)*3 { // what a pass that was differentiated saved goes after all else: its thread counts anew
		return true
	}
	half := len(births) / 2
	sums := [2]float64{}
	for k, b := range births {
		sums[AsInt(k >= half)] += float64(b)
	}
	return sums[0]/float64(max(half, 1)) > sums[1]/float64(max(len(births)-half, 1))
}
