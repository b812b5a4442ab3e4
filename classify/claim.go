package classify

import (
	"github.com/vramscope/vramscope/internal/together"
	"github.com/vramscope/vramscope/timeline"
)

// claim is what one signal says of one allocation; sure is in percent, 0 for
// nothing to say.
type claim struct {
	category Category
	detail   Detail
	sure     uint8
}

// signal is one independent kind of evidence.
type signal struct {
	name Signal
	// birth and death are the marks of an allocation's stacks of which the signal
	// speaks; without any it may speak of all. Most stacks have none of them.
	birth, death marks
	claim        func(a *analysis, id timeline.AllocationID) claim
}

// How sure a claim is in words, in percent.
const (
	Exact     = 99
	Strong    = 95
	Likely    = 85
	Plausible = 70
	Guess     = 50

	exact, strong, likely, plausible, guess = Exact, Strong, Likely, Plausible, Guess
)

// annotationClaim reads the ranges that a library names while it works.
func annotationClaim(a *analysis, id timeline.AllocationID) claim {
	b := a.born(id)
	switch {
	case b < 0 || !a.sharing[b] || a.Phase[id] == Setup:
		return claim{}
	case a.Phase[id] == Backward && a.outlivesPass(id):
		return claim{Gradients, NoDetail, likely}
	}
	return claim{Communication, GatheredShard, strong}
}

// join is the one place where signals meet: the surest claim decides, a signal
// that says something else takes from it, one that agrees adds to it.
func (a *analysis) join(signals []signal) {
	const piece = 1 << 14
	n := len(a.Category)
	together.Each((n+piece-1)/piece, func(k int) {
		for i := k * piece; i < min((k+1)*piece, n); i++ {
			a.joinOne(signals, timeline.AllocationID(i))
		}
	})
}

func (a *analysis) joinOne(signals []signal, id timeline.AllocationID) {
	var best claim
	var by Signal
	var against, agreeing uint8
	birth, death := a.birth(id).marks, a.death(id).marks
	for i := range signals {
		s := &signals[i]
		if s.birth|s.death != 0 && birth&s.birth|death&s.death == 0 {
			continue
		}
		c := s.claim(a, id)
		switch {
		case c.sure == 0:
		case c.category == best.category:
			agreeing = max(agreeing, min(c.sure, best.sure))
			if c.sure > best.sure {
				best.sure, by = c.sure, s.name
			}
			if best.detail == NoDetail {
				best.detail = c.detail
			}
		case c.sure > best.sure:
			against, agreeing = best.sure, 0
			best, by = c, s.name
		default:
			against = max(against, c.sure)
		}
	}
	if against >= likely && best.sure < exact {
		best.sure -= min(best.sure/2, (against-likely)+6)
	}
	if agreeing >= plausible && against < plausible {
		best.sure = min(exact, best.sure+4)
	}
	a.Category[id], a.Detail[id], a.Confidence[id], a.Signal[id] = best.category, best.detail, best.sure, by
}
