package older

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

var OlderSiblings = &rules.Rule{
	ID: "older-siblings",
	Doc: `Older than the recording, and unsure by itself: what the later allocations of its stack turned out to be,
or, where it has none, those of its size, of which three steps or more must have left some.`,
	Signal:   meaning.BySite,
	Siblings: true,
	Born:     rules.Older,
	Needs:    []rules.Need{Gradients, Settled},
	Begin:    askLaterSiblings,
}

// askLaterSiblings counts, for blocks older than the trace of which only their lives
// tell, the later ones of their stack and of their size. A size that returns as
// gradients is told by that.
func askLaterSiblings(a *rules.Facts) rules.Says {
	const large = 4096
	byStack, bySize := make([]*tallies, len(a.Stacks)), map[int64]*tallies{}
	var maybe [256]bool // sizes that are asked for: of most allocations none is
	bucket := func(n int64) uint8 { return uint8(n>>9 ^ n>>17) }
	unsure := func(id timeline.AllocationID) bool {
		return a.Confidence[id] <= rules.Plausible && a.Timeline.Requested(id) >= large
	}
	gradients, settled := Gradients.Of(a).GradientSize, Settled.Of(a)
	asked := false
	for id := range timeline.AllocationID(a.Timeline.Older()) {
		if !unsure(id) {
			continue
		}
		asked = true
		if stack := a.Timeline.Stack(id); stack != 0 && byStack[stack] == nil {
			byStack[stack] = &tallies{}
		}
		if n := a.Timeline.Requested(id); gradients[n] == 0 && bySize[n] == nil {
			bySize[n], maybe[bucket(n)] = &tallies{}, true
		}
	}
	if !asked {
		return nil
	}
	for id := timeline.AllocationID(a.Timeline.Older()); int(id) < a.Timeline.Len(); id++ {
		if t := byStack[a.Timeline.Stack(id)]; t != nil {
			t.add(a, id)
		}
		if n := a.Timeline.Requested(id); maybe[bucket(n)] {
			if t := bySize[n]; t != nil {
				t.add(a, id)
			}
		}
	}
	return func(id timeline.AllocationID) rules.Claim {
		if !unsure(id) {
			return rules.Claim{}
		}
		t, steps := byStack[a.Timeline.Stack(id)], 0
		if t == nil || t.all == (Tally{}) {
			t, steps = bySize[a.Timeline.Requested(id)], 3
		}
		if t == nil {
			return rules.Claim{}
		}
		return t.claim(settled.Lasts(a, id), steps)
	}
}

// tallies count the allocations of a place.
type tallies struct {
	all, stay Tally
	steps     int   // that left some of those that stay
	last      int32 // of them, and 1
}

func (t *tallies) add(a *rules.Facts, id timeline.AllocationID) {
	t.all[a.Category[id]]++
	if a.Outlives(id) {
		t.stay[a.Category[id]]++
		if step := a.Step[id] + 1; t.last != step {
			t.steps, t.last = t.steps+1, step
		}
	}
}

// claim is what most of a place are: for what lasts, most of those that stay, which so
// many steps must have left.
func (t *tallies) claim(lasts bool, steps int) rules.Claim {
	best, most := t.all.agreed()
	if lasts && (best != meaning.Logits || !most) { // nothing else is as large as logits
		best, most = t.stay.agreed()
		most = most && t.steps >= steps
	}
	switch best {
	case meaning.Activations, meaning.Logits, meaning.KVCache, meaning.Inputs:
	case meaning.Temporary:
		most = most && lasts
	default:
		most = false
	}
	return rules.When(most, rules.As(best, rules.Plausible+1))
}

// Tally counts allocations by category.
type Tally [meaning.NumCategories]int

// Best is the category of most; sum is the number of all.
func (t *Tally) Best() (best meaning.Category, sum int) {
	for c, n := range t {
		if sum += n; n > t[best] {
			best = meaning.Category(c)
		}
	}
	return best, sum
}

// agreed is the best one; most reports whether there are some, and whether it is
// that of four fifths.
func (t *Tally) agreed() (best meaning.Category, most bool) {
	const few = 2
	best, sum := t.Best()
	return best, t[best] >= few && t[best]*5 >= sum*4
}
