package classify

import (
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/names"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/classify/rules/logits"
	"github.com/vramscope/vramscope/classify/rules/older"
	"github.com/vramscope/vramscope/internal/together"
	"github.com/vramscope/vramscope/timeline"
)

// decide has every rule claim but some, and names what a model's tensors can name. The
// claims are those of all rules that need no labels.
func decide(a *rules.Facts, claims rules.Claims, o Options) {
	a.Labels = names.ReadLabels(a.Result, o.Labels)
	claims.Begin(a, registry, true)
	for i, r := range registry {
		if slices.Contains(o.Without, r.ID) {
			claims[i] = nil
		}
	}
	panel := claims.Seat(registry)
	together.Do(func() { join(a, panel) }, a.Peaks)
	withdraw(a, panel)
	askSiblings(a, o.Without)
	calibrate(a)
	heldOtherwise(a, o)
	findDetails(a)
	logits.TellFailedLoss(a)
	names.Find(a.Result, o.Tensors)
}

// heldOtherwise takes back the guess that something is a weight, a gradient or an optimizer's state where a variable holds it:
// the recorder looked for those in all modules and optimizers, and labels name what it found. Of what is made in the recording
// that is so where setup is all: later, copies of weights are held so, too.
func heldOtherwise(a *rules.Facts, o Options) {
	setup := !slices.ContainsFunc(a.Phase, func(p meaning.Phase) bool { return p != meaning.Setup })
	for _, id := range names.Apart(o.Holders, o.Labels) {
		kinds := []meaning.Category{meaning.Weights, meaning.Gradients, meaning.OptimizerState}
		if int(id) >= a.Timeline.Older() {
			kinds = kinds[:phases.AsInt(setup)]
		}
		if guessed(a, id, kinds...) {
			retell(a, id, meaning.Unknown, 0)
		}
	}
	for _, id := range besidesState(a, o) {
		if guessed(a, id, meaning.OptimizerState) {
			retell(a, id, meaning.Temporary, rules.Plausible)
		}
	}
	heldByGraphs(a, o)
}

// guessed reports whether what is still there was told one of some categories, neither by its label nor by its stack.
func guessed(a *rules.Facts, id timeline.AllocationID, of ...meaning.Category) bool {
	_, named := a.Labels[id]
	s := a.Signal[id]
	return !named && a.Timeline.FreeRequested[id] == timeline.Never && slices.Contains(of, a.Category[id]) &&
		(s == meaning.ByLife || s == meaning.BySite || s == meaning.BySize)
}

// retell says instead of what a rule guessed what holders show, and how sure that is, in percent.
func retell(a *rules.Facts, id timeline.AllocationID, category meaning.Category, sure uint8) {
	a.Category[id], a.Detail[id], a.Confidence[id], a.Rule[id] = category, meaning.NoDetail, sure, 0
}

// heldByGraphs says of guessed weights that only an autograd graph holds, or that have one behind them: they are activations.
func heldByGraphs(a *rules.Facts, o Options) {
	const saved = 90 // percent
	for i := range o.Holders {
		h := &o.Holders[i]
		behind := h.Graph
		if len(behind) > 0 && len(h.Tensors) == 1 { // a leaf has no graph
			behind = slices.Concat(behind, h.Tensors)
		}
		for _, id := range behind {
			if guessed(a, id, meaning.Weights) {
				retell(a, id, meaning.Activations, saved)
			}
		}
	}
}

// besidesState are what an optimizer's steps made and neither its state nor a variable holds, where the last one failed and the
// recorder found that state then: temporaries, as foreach's are.
func besidesState(a *rules.Facts, o Options) (ids []timeline.AllocationID) {
	found := slices.ContainsFunc(o.Labels, func(l meaning.Label) bool { return l.Category == meaning.OptimizerState })
	n := a.Timeline.Len()
	failed := len(a.Timeline.OOMs) > 0 && n > 0 && a.Phase[n-1] == meaning.Optimizer
	if !failed || !found || len(o.Holders) == 0 {
		return nil
	}
	held := map[timeline.AllocationID]bool{}
	for i := range o.Holders {
		for _, id := range o.Holders[i].Tensors {
			held[id] = true
		}
	}
	for id := timeline.AllocationID(a.Timeline.Older()); int(id) < n; id++ {
		if a.Phase[id] == meaning.Optimizer && !held[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

// calibrate says of blocks that rules decided how often these were proven right, where that is another figure.
func calibrate(a *rules.Facts) {
	var proven [256]uint8
	for k, r := range registry {
		proven[k+1] = r.Proven
	}
	for i, rule := range a.Rule {
		if p := proven[rule]; p > 0 {
			a.Confidence[i] = p
		}
	}
}

// join is the one place where claims meet: the surest claim decides, a signal
// that says something else takes from it, one that agrees adds to it.
func join(a *rules.Facts, p rules.Panel) {
	const piece = 1 << 14
	n := len(a.Category)
	widest := logits.Marked.Of(a).Widest
	together.Each((n+piece-1)/piece, func(k int) {
		for i := k * piece; i < min((k+1)*piece, n); i++ {
			id := timeline.AllocationID(i)
			joinOne(a, p[bornIn(a, id)], id, widest, meaning.Unknown)
		}
	})
}

// bornIn is the place of those rules that speak of an allocation.
func bornIn(a *rules.Facts, id timeline.AllocationID) int {
	if int(id) < a.Timeline.Older() {
		return meaning.NumPhases
	}
	return int(a.Phase[id])
}

// joinOne asks the rules of one birth about one allocation, which may be one of the widest, and isn't of one category.
//
// It runs for every allocation, and a call for each claim would cost more than the claims.
func joinOne(a *rules.Facts, seats []rules.Asked, id timeline.AllocationID, widest map[timeline.AllocationID]bool,
	not meaning.Category) {
	var best rules.Claim
	var by meaning.Signal
	var rule, against, agreeing uint8
	birth, death := a.Birth(id).Marks, a.Death(id).Marks
	for i := 0; i < len(seats); {
		r := &seats[i]
		if r.Group != 0 && (birth|death)&r.Group == 0 {
			i = r.Next
			continue
		}
		if r.Birth|r.Death != 0 && birth&r.Birth|death&r.Death == 0 {
			i++
			continue
		}
		c := r.Claim(id)
		if isNone(c, not) {
			i++
			continue
		}
		i = r.Next
		if len(widest) > 0 && r.Signal == meaning.ByLife {
			c.Sure = min(c.Sure, mostSure(a, widest, id))
		}
		switch {
		case c.Sure == 0:
		case c.Category == best.Category:
			agreeing = max(agreeing, min(c.Sure, best.Sure))
			if c.Sure > best.Sure {
				best.Sure, by, rule = c.Sure, r.Signal, r.Rule
			}
			if best.Detail == meaning.NoDetail {
				best.Detail = c.Detail
			}
		case c.Sure > best.Sure:
			against, agreeing = best.Sure, 0
			best, by, rule = c, r.Signal, r.Rule
		default:
			against = max(against, c.Sure)
		}
	}
	if against >= rules.Likely && best.Sure < rules.Exact {
		best.Sure -= min(best.Sure/2, (against-rules.Likely)+6)
	}
	if agreeing >= rules.Plausible && against < rules.Plausible {
		best.Sure = min(rules.Exact, best.Sure+4)
	}
	a.Category[id], a.Detail[id], a.Confidence[id], a.Signal[id], a.Rule[id] = best.Category, best.Detail, best.Sure, by, rule
}

// isNone is true of a claim that says nothing, or a category that is ruled out.
func isNone(c rules.Claim, not meaning.Category) bool {
	return c.Sure == 0 && !c.Last || not != meaning.Unknown && c.Category == not
}

// mostSure bounds what the life of an allocation can say where it may hold logits
// though no loss shows.
func mostSure(a *rules.Facts, widest map[timeline.AllocationID]bool, id timeline.AllocationID) uint8 {
	switch a.Phase[id] {
	case meaning.Forward, meaning.Generate, meaning.Backward:
		if widest[id] {
			return rules.Plausible
		}
	}
	return 100
}

// askSiblings has the rules claim that look at what others turned out to be, one after
// the other, of what nothing surer is known. The surest claim decides here, too.
func askSiblings(a *rules.Facts, without []string) {
	for k, r := range registry {
		if !r.Siblings || slices.Contains(without, r.ID) || !r.Speaks(a) {
			continue
		}
		claims := r.Look(a)
		if claims == nil {
			continue
		}
		for i, sure := range a.Confidence {
			if sure > rules.Plausible || r.Born == rules.Older && i >= a.Timeline.Older() {
				continue
			}
			id := timeline.AllocationID(i)
			c := claims(id)
			if c.Sure <= sure {
				continue
			}
			if c.Category != a.Category[id] {
				a.Detail[id] = c.Detail
			}
			a.Category[id], a.Confidence[id], a.Signal[id], a.Rule[id] = c.Category, c.Sure, r.Signal, uint8(k+1)
		}
	}
}

// findDetails says more where the category alone leaves it open: moments come in
// the order in which an optimizer makes them, parameters have gradients.
func findDetails(a *rules.Facts) {
	single := older.Gradients.Of(a).GradientSize
	var gradients, states int64
	for n, count := range single {
		gradients += n * int64(count)
	}
	for i, c := range a.Category {
		if c == meaning.OptimizerState && a.Step[i] <= 0 {
			states += a.Timeline.Requested(timeline.AllocationID(i))
		}
	}
	pairs := gradients > 0 && states*2 >= gradients*3 // Adam's two, not momentum's one
	first := int64(-1)                                // size of a first moment whose second is to come
	for i, c := range a.Category {
		if c != meaning.OptimizerState && c != meaning.Weights {
			continue
		}
		n := a.Timeline.Requested(timeline.AllocationID(i))
		switch {
		case a.Detail[i] != meaning.NoDetail:
		case c == meaning.OptimizerState && n <= phases.Scalar:
			a.Detail[i] = meaning.StepCounter
		case c == meaning.OptimizerState && pairs && n == first:
			a.Detail[i], first = meaning.Moment2, -1
		case c == meaning.OptimizerState:
			a.Detail[i], first = meaning.Moment1, n
		case c == meaning.Weights && single[n] > 0:
			a.Detail[i] = meaning.Parameter
		}
	}
}
