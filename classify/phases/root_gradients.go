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
must free what forward saved as others do. A number that a cache or a layer keeps is none.`,
	Needs: []Need{NoStacks},
	Find:  func(f *facts) found { return found{roots: rootGradients{f}.find()} },
}

type rootGradients struct{ *facts }

// find gives the backward passes by their root gradients.
//
// complexity: births, frees and failures are followed in one walk over all events
func (a rootGradients) find() []root {
	released := newReleases(a.Last)
	pending := map[timeline.AllocationID]int64{}
	var found []root
	var alive []scalarAlive
	failed, atFailure := a.Last, released // what the last error unwinds, no backward pass releases
	if n := len(a.OOMs); n > 0 {
		failed = a.OOMs[n-1]
	}
	for i, action := range a.Events.Action {
		if i == failed {
			atFailure = released.clone()
		}
		switch id := a.Timeline.Of[i]; {
		case id == timeline.NoAllocation:
		case action == snapshot.Alloc && a.Timeline.Requested(id) <= Scalar:
			switch f := a.Freed(id); {
			case f >= a.Last:
				alive = append(alive, scalarAlive{i, released.bornBefore(i)})
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
				if d := by.bornBefore(b) - before; d > 0 && !a.stepsWithin(b, i) {
					found = append(found, root{b, i, d})
				}
			}
			if a.Covered[i] == 0 && i-b >= shortest { // not gradients, not what an operator needs for itself
				released.add(b, 1)
			}
		}
	}
	roots := a.weighty(proportioned(a.gradual(a.cutShort(a.keepRoots(found)))))
	if r, ok := a.unfinished(alive, released, roots); ok {
		roots = append(roots, r)
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
//
// complexity: each pair of intervals is compared once, for all reasons to drop the outer one
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
			if s.end <= r.end && s.released*4 >= r.released*3 || s.end > r.end && s.released*10 >= r.released {
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
