package classify

import (
	"github.com/vramscope/vramscope/internal/together"
	"github.com/vramscope/vramscope/timeline"
)

// decide has every rule claim, and names what a model's tensors can name.
func decide(a *analysis, labels []Label, tensors []Tensor, without []string) {
	a.labels = readLabels(a.Result, labels)
	together.Do(func() { join(a, seat(a, registry, without)) }, a.peaks)
	askSiblings(a, registry, without)
	findDetails(a)
	tellFailedLoss(a)
	findNames(a.Result, tensors)
}

// join is the one place where claims meet: the surest claim decides, a signal
// that says something else takes from it, one that agrees adds to it.
func join(a *analysis, p panel) {
	const piece = 1 << 14
	n, older := len(a.Category), a.t.Older()
	together.Each((n+piece-1)/piece, func(k int) {
		for i := k * piece; i < min((k+1)*piece, n); i++ {
			seats := p[NumPhases]
			if i >= older {
				seats = p[a.Phase[i]]
			}
			joinOne(a, seats, timeline.AllocationID(i))
		}
	})
}

func joinOne(a *analysis, seats []asked, id timeline.AllocationID) {
	var best claim
	var by Signal
	var rule, against, agreeing uint8
	birth, death := a.birth(id).Marks, a.death(id).Marks
	for i := 0; i < len(seats); {
		r := &seats[i]
		if r.birth|r.death != 0 && birth&r.birth|death&r.death == 0 {
			i++
			continue
		}
		c := r.claim(id)
		if c.sure == 0 && !c.last {
			i++
			continue
		}
		i = r.next
		if r.signal == ByLife {
			c.sure = min(c.sure, mostSure(a, id))
		}
		switch {
		case c.sure == 0:
		case c.category == best.category:
			agreeing = max(agreeing, min(c.sure, best.sure))
			if c.sure > best.sure {
				best.sure, by, rule = c.sure, r.signal, r.rule
			}
			if best.detail == NoDetail {
				best.detail = c.detail
			}
		case c.sure > best.sure:
			against, agreeing = best.sure, 0
			best, by, rule = c, r.signal, r.rule
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
	a.Category[id], a.Detail[id], a.Confidence[id], a.Signal[id], a.Rule[id] = best.category, best.detail, best.sure, by, rule
}

// mostSure bounds what the life of an allocation can say where it may hold logits
// though no loss shows.
func mostSure(a *analysis, id timeline.AllocationID) uint8 {
	if len(a.doubtful)+len(a.widest) == 0 {
		return 100
	}
	switch a.Phase[id] {
	case Forward, Generate, Backward:
		if _, ok := a.doubtful[id]; ok {
			return guess
		}
		if a.widest[id] {
			return plausible
		}
	}
	return 100
}

// askSiblings has the rules claim that look at what others turned out to be, one after
// the other, of what nothing surer is known. The surest claim decides here, too.
func askSiblings(a *analysis, registry []*Rule, without []string) {
	for k, r := range registry {
		if !r.Siblings || !r.speaks(a, without) {
			continue
		}
		claims := r.Begin(a)
		if claims == nil {
			continue
		}
		for i, sure := range a.Confidence {
			if sure > plausible || r.Born == Older && i >= a.t.Older() {
				continue
			}
			id := timeline.AllocationID(i)
			c := claims(id)
			if c.sure <= sure {
				continue
			}
			if c.category != a.Category[id] {
				a.Detail[id] = c.detail
			}
			a.Category[id], a.Confidence[id], a.Signal[id], a.Rule[id] = c.category, c.sure, r.Signal, uint8(k+1)
		}
	}
}
