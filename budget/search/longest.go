package search

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/gpus"
)

// Longest are settings with the longest sequences that fit a device, one for each way of training: sharding, tensor and context
// parallelism and the loss are searched, everything is checkpointed. What trains most in full comes first, and a later way
// only where its sequences are longer.
func Longest(c *budget.Config, s budget.Setting, g gpus.GPU, precisions []string) (best []budget.Plan, err error) {
	_, b, err := first(c, s)
	if err != nil {
		return nil, err
	}
	if !b.SequenceFree() {
		return nil, oneLength(b)
	}
	precisions = planned(&s, precisions)
	s.Reserve, s.Checkpointing = b.Looseness(), "full"
	for i, w := range ways {
		if w.seldom {
			continue
		}
		var tried []stretch
		for _, precision := range precisions {
			tried = append(tried, stretches(c, s, i, precision, g)...)
		}
		if len(tried) == 0 {
			continue
		}
		t := slices.MaxFunc(tried, func(a, b stretch) int { return cmp.Compare(a.length, b.length) })
		if p, ok := t.plan(c, g); ok && (len(best) == 0 || p.Sequence > best[len(best)-1].Sequence) {
			p.Order, p.Way = i, w.called(&p.Setting)
			best = append(best, p)
		}
	}
	for i := len(best) - 1; i >= 0; i-- {
		best[i].Cost /= best[0].Cost
	}
	return best, nil
}

// stretch is a setting, and about how long its sequences can be.
type stretch struct {
	s      budget.Setting
	length int64
}

// stretches are those of a way that divide sequences over as many GPUs as they can: from two lengths follows a third, as memory
// grows in a line with long ones.
func stretches(c *budget.Config, s budget.Setting, way int, precision string, g gpus.GPU) (all []stretch) {
	near := longPlan / 2 * max(s.GPUs, 1)
	s.Sequence = max(2*near, longPlan)
	var most int64
	ways, w := shardings(s), &ways[way]
	for _, t := range ways {
		most = max(most, t.TP*t.CP)
	}
	for _, t := range ways {
		t.Precision, t.Loss = precision, longLoss(t)
		if t.TP*t.CP < most || !w.goes(&t) {
			continue
		}
		one, err := budget.Compute(c, t.WithSequence(near))
		if err != nil {
			continue
		}
		two, err := budget.Compute(c, t.WithSequence(2*near))
		if err != nil || two.TotalDevice() <= one.TotalDevice() {
			continue
		}
		more := float64(g.Capacity-one.TotalDevice()) / float64(two.TotalDevice()-one.TotalDevice())
		all = append(all, stretch{t, near + int64(more*float64(near))})
	}
	return all
}

// longLoss is chunked where nobody asks for another one; what divides layers has its own.
func longLoss(s budget.Setting) string {
	if s.TP == 1 && s.Framework == "" && (s.Loss == "" || s.Loss == "default") {
		return "chunked"
	}
	return s.Loss
}

// plan works the longest sequence out, to a thousand tokens: for about that length first, and with as much reserved over
// allocated then for others.
func (t stretch) plan(c *budget.Config, g gpus.GPU) (p budget.Plan, ok bool) {
	unit := max(1024, t.s.CP)
	n := max(t.length/unit*unit, unit)
	for range 5 {
		t.s.Reserve = 0
		b, err := budget.Compute(c, t.s.WithSequence(n))
		if err != nil {
			return p, false
		}
		if surelyOf(b, g) <= g.Capacity && (!ok || n > p.Sequence) {
			p.Setting, ok = b.Setting, true
			weigh(&p, b)
		}
		t.s.Reserve = b.Looseness()
		m := longest(c, unit, n, g.Capacity, func(n int64) int64 { return surely(c, t.s.WithSequence(n), g) })
		if m == 0 || m == n || ok && m <= p.Sequence {
			break
		}
		n = m
	}
	return p, ok
}

// surely is what a budget takes of a device with what published measurements of its kind were off by; -1 for one that can't be.
func surelyOf(b *budget.Budget, g gpus.GPU) int64 {
	n := b.Need(g)
	if n < 0 || b.Setting.Inference {
		return n
	}
	return n + int64(b.ErrorOf()*float64(b.Reserved))
}

func surely(c *budget.Config, s budget.Setting, g gpus.GPU) int64 {
	b, err := budget.Compute(c, s)
	if err != nil {
		return -1
	}
	return surelyOf(b, g)
}

// Spared is the largest batch or sequence up to the one that was solved for that leaves a device as much spare as published
// measurements of its kind were off by; 0 where none does.
func Spared(c *budget.Config, s budget.Setting, what string, g gpus.GPU) (int64, error) {
	b, err := budget.Compute(c, s)
	if err != nil {
		return 0, err
	}
	n, unit := s.Batch, int64(1)
	with := budget.Setting.WithBatch
	if what == "seq" {
		n, unit, with = s.Sequence, s.SequenceUnit(), budget.Setting.WithSequence
	}
	if surelyOf(b, g) <= g.Capacity {
		return n, nil
	}
	s.Reserve, s.Fullest = b.Looseness(), b.Fullest
	return largest(unit, max(n/unit*unit, unit), n, g.Capacity, func(k int64) int64 { return surely(c, with(s, k), g) }), nil
}
