package older

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

var OlderSiblings = &rules.Rule{
	ID: "older-siblings",
	Doc: `Older than the recording, and unsure by itself: what the later allocations of its stack and size turned
out to be, or, where these are no two, those of its stack, else of its size, of which three steps or more must have left some.`,
	Signal:   meaning.BySite,
	Siblings: true,
	Born:     rules.Older,
	Needs:    []rules.Need{Gradients, Settled},
	Begin:    askLaterSiblings,
}

// place is a stack and a size; 0: any.
type place struct {
	stack snapshot.StackID
	bytes int64
}

// places are where the likes of a block are looked for.
func places(a *rules.Facts, id timeline.AllocationID) (at [3]place) {
	stack, n := a.Timeline.Stack(id), a.Timeline.Requested(id)
	if stack != 0 {
		at[0], at[1] = place{stack, n}, place{stack, 0}
	}
	at[2] = place{0, n}
	return at
}

// askLaterSiblings counts, for blocks older than the trace of which only their lives
// tell, the later ones of their stack and of their size. A size that returns as
// gradients is told by that.
func askLaterSiblings(a *rules.Facts) rules.Says {
	const large = 4096
	of := map[place]*tallies{}
	var maybe [256]bool // places that are asked for: of most allocations none is
	bucket := func(p place) uint8 { return uint8(p.bytes>>9 ^ p.bytes>>17 ^ int64(p.stack)) }
	unsure := func(id timeline.AllocationID) bool {
		return a.Confidence[id] <= rules.Plausible && a.Timeline.Requested(id) >= large
	}
	gradients, settled := Gradients.Of(a).GradientSize, Settled.Of(a)
	for id := range timeline.AllocationID(a.Timeline.Older()) {
		if !unsure(id) {
			continue
		}
		for _, p := range places(a, id) {
			if p.stack != 0 || p.bytes > 0 && gradients[p.bytes] == 0 {
				of[p], maybe[bucket(p)] = &tallies{}, true
			}
		}
	}
	if len(of) == 0 {
		return nil
	}
	for id := timeline.AllocationID(a.Timeline.Older()); int(id) < a.Timeline.Len(); id++ {
		for _, p := range places(a, id) {
			if maybe[bucket(p)] && of[p] != nil {
				of[p].add(a, id)
			}
		}
	}
	return func(id timeline.AllocationID) rules.Claim {
		if !unsure(id) {
			return rules.Claim{}
		}
		for _, p := range places(a, id) {
			if t := of[p]; t != nil && t.counted > 1 {
				return t.claim(settled.Lasts(a, id), 3*phases.AsInt(p.stack == 0))
			}
		}
		return rules.Claim{}
	}
}

// tallies count the allocations of a place.
type tallies struct {
	all, stay Tally
	counted   int
	steps     int   // that left some of those that stay
	last      int32 // of them, and 1
}

func (t *tallies) add(a *rules.Facts, id timeline.AllocationID) {
	t.all[a.Category[id]]++
	t.counted++
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
