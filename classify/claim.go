package classify

import (
	"github.com/vramscope/vramscope/frames"
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
	birth, death frames.Marks
	claim        func(a *analysis, id timeline.AllocationID) claim
}

// sureness words of claims, in percent.
const (
	exact     = 99
	strong    = 95
	likely    = 85
	plausible = 70
	guess     = 50
)

// annotationClaim reads the ranges that a library names while it works.
func annotationClaim(a *analysis, id timeline.AllocationID) claim {
	b := a.born(id)
	switch {
	case b < 0 || !a.sharing[b] || a.Phase[id] == Setup:
		return claim{}
	case a.Phase[id] == Backward && outlivesPass(a, id):
		return claim{Gradients, NoDetail, likely}
	}
	return claim{Communication, GatheredShard, strong}
}

// join is the one place where signals meet: the surest claim decides, a signal
// that says something else takes from it, one that agrees adds to it.
func join(a *analysis, signals []signal) {
	const piece = 1 << 14
	n := len(a.Category)
	together.Each((n+piece-1)/piece, func(k int) {
		for i := k * piece; i < min((k+1)*piece, n); i++ {
			joinOne(a, signals, timeline.AllocationID(i))
		}
	})
}

func joinOne(a *analysis, signals []signal, id timeline.AllocationID) {
	var best claim
	var by Signal
	var against, agreeing uint8
	birth, death := a.birth(id).Marks, a.death(id).Marks
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
