package classify

import "github.com/vramscope/vramscope/timeline"

// joinOlder asks, for blocks older than the trace of which only their lives tell,
// the later ones of their stack, or where there are none of their size: for what stays,
// those that three steps or more left. A size that returns as gradients is told
// by that.
func joinOlder(a *analysis) {
	const large, steps = 4096, 3
	var unsure []timeline.AllocationID
	byStack, bySize := make([]*tallies, len(a.stacks)), map[int64]*tallies{}
	var maybe [256]bool // sizes that are asked for: of most allocations none is
	bucket := func(n int64) uint8 { return uint8(n>>9 ^ n>>17) }
	for id := range timeline.AllocationID(a.t.Older()) {
		n, stack := a.t.Requested(id), a.t.Stack(id)
		if a.Confidence[id] > plausible || n < large {
			continue
		}
		unsure = append(unsure, id)
		if stack != 0 && byStack[stack] == nil {
			byStack[stack] = &tallies{}
		}
		if a.gradientSize[n] == 0 && bySize[n] == nil {
			bySize[n], maybe[bucket(n)] = &tallies{}, true
		}
	}
	if len(unsure) == 0 {
		return
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
	for _, id := range unsure {
		signal, t := BySite, byStack[a.t.Stack(id)]
		if t == nil || t.all == (tally{}) {
			signal, t = BySize, bySize[a.t.Requested(id)]
		}
		if t == nil {
			continue
		}
		lasts := lasts(a, id)
		best, most := t.all.agreed()
		if lasts && (best != Logits || !most) { // nothing else is as large as scores
			best, most = t.stay.agreed()
			most = most && (signal == BySite || t.steps >= steps)
		}
		switch best {
		case Activations, Logits, KVCache, Inputs:
		case Temporary:
			most = most && lasts
		default:
			most = false
		}
		if most {
			a.Category[id], a.Detail[id], a.Signal[id], a.Confidence[id] = best, NoDetail, signal, guess
		}
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
