package classify

import "github.com/vramscope/vramscope/timeline"

var olderSiblings = &Rule{
	ID: "older-siblings",
	Doc: `Older than the recording, and unsure by itself: what the later allocations of its stack turned out to be,
or, where it has none, those of its size, of which three steps or more must have left some.`,
	Signal:   BySite,
	Siblings: true,
	Born:     Older,
	Needs:    []Need{OlderBlock, Sizes},
	Begin:    askLaterSiblings,
}

// askLaterSiblings counts, for blocks older than the trace of which only their lives
// tell, the later ones of their stack and of their size. A size that returns as
// gradients is told by that.
func askLaterSiblings(a *analysis) func(timeline.AllocationID) claim {
	const large = 4096
	byStack, bySize := make([]*tallies, len(a.stacks)), map[int64]*tallies{}
	var maybe [256]bool // sizes that are asked for: of most allocations none is
	bucket := func(n int64) uint8 { return uint8(n>>9 ^ n>>17) }
	unsure := func(id timeline.AllocationID) bool {
		return a.Confidence[id] <= plausible && a.t.Requested(id) >= large
	}
	asked := false
	for id := range timeline.AllocationID(a.t.Older()) {
		if !unsure(id) {
			continue
		}
		asked = true
		if stack := a.t.Stack(id); stack != 0 && byStack[stack] == nil {
			byStack[stack] = &tallies{}
		}
		if n := a.t.Requested(id); a.gradientSize[n] == 0 && bySize[n] == nil {
			bySize[n], maybe[bucket(n)] = &tallies{}, true
		}
	}
	if !asked {
		return nil
	}
	for id := timeline.AllocationID(a.t.Older()); int(id) < a.t.Len(); id++ {
		if t := byStack[a.t.Stack(id)]; t != nil {
			t.add(a, id)
		}
		if n := a.t.Requested(id); maybe[bucket(n)] {
			if t := bySize[n]; t != nil {
				t.add(a, id)
			}
		}
	}
	return func(id timeline.AllocationID) claim {
		if !unsure(id) {
			return claim{}
		}
		t, steps := byStack[a.t.Stack(id)], 0
		if t == nil || t.all == (tally{}) {
			t, steps = bySize[a.t.Requested(id)], 3
		}
		if t == nil {
			return claim{}
		}
		return t.claim(lasts(a, id), steps)
	}
}

// tallies count the allocations of a place.
type tallies struct {
	all, stay tally
	steps     int   // that left some of those that stay
	last      int32 // of them, and 1
}

func (t *tallies) add(a *analysis, id timeline.AllocationID) {
	t.all[a.Category[id]]++
	if a.outlives(id) {
		t.stay[a.Category[id]]++
		if step := a.Step[id] + 1; t.last != step {
			t.steps, t.last = t.steps+1, step
		}
	}
}

// claim is what most of a place are: for what lasts, most of those that stay, which so
// many steps must have left.
func (t *tallies) claim(lasts bool, steps int) claim {
	best, most := t.all.agreed()
	if lasts && (best != Logits || !most) { // nothing else is as large as logits
		best, most = t.stay.agreed()
		most = most && t.steps >= steps
	}
	switch best {
	case Activations, Logits, KVCache, Inputs:
	case Temporary:
		most = most && lasts
	default:
		most = false
	}
	if !most {
		return claim{}
	}
	return as(best, plausible+1)
}

// tally counts allocations by category.
type tally [NumCategories]int

// best is the category of most; sum is the number of all.
func (t *tally) best() (best Category, sum int) {
	for c, n := range t {
		if sum += n; n > t[best] {
			best = Category(c)
		}
	}
	return best, sum
}

// agreed is the best one; most tells whether there are some, and whether it is
// that of four fifths.
func (t *tally) agreed() (best Category, most bool) {
	const few = 2
	best, sum := t.best()
	return best, t[best] >= few && t[best]*5 >= sum*4
}
