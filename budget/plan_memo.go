package budget

import (
	"slices"
	"sync"

	"github.com/vramscope/vramscope/budget/autograd"
)

// simulated is what a simulated step leaves behind.
type simulated struct {
	peaks, ends [numPhases]autograd.Instant
	host        int64 // bytes of saved tensors in host memory, at most
}

// memo keeps the last steps of a configuration: settings that differ in the
// optimizer or the allocator alone have the same forward and backward. The last
// whole budget is kept, too: what fits and what would help start from it.
type memo struct {
	sync.Mutex
	steps  map[memoKey]simulated
	last   *Budget
	lastOf Setting
}

// budget is the last one, where it was of this setting.
func (m *memo) budget(s Setting) *Budget {
	if m == nil {
		return nil
	}
	m.Lock()
	defer m.Unlock()
	if m.last == nil || m.lastOf != s {
		return nil
	}
	return m.last.copy()
}

func (m *memo) keep(s Setting, b *Budget) {
	if m == nil || s.Reserve > 0 || s.Fullest > 0 { // an estimate
		return
	}
	m.Lock()
	defer m.Unlock()
	m.last, m.lastOf = b.copy(), s
}

// copy is one that its owner may change.
func (b *Budget) copy() *Budget {
	c := *b
	c.Phases, c.Stages, c.Notes = slices.Clone(b.Phases), slices.Clone(b.Stages), slices.Clone(b.Notes)
	return &c
}

type memoKey struct {
	s    Setting
	kept bool
	rank int64 // of a pipeline
}

// memoSize bounds what is kept; a ladder has a dozen settings.
const memoSize = 64

// simulated is simulate, or what it gave before.
func (p *plan) simulated(kept bool) simulated {
	work := func() simulated {
		r := p.simulate(kept, 0)
		defer r.M.Done()
		return simulated{r.M.Peaks, r.ends, r.M.Most}
	}
	m := p.config.memo
	if m == nil {
		return work()
	}
	k := memoKey{p.Setting, kept, p.rank}
	k.s.MasterWeights, k.s.Allocator, k.s.Reserve, k.s.Fullest = false, "", 0, 0
	if !k.s.OptimizerInBackward && !k.s.Compile {
		k.s.Optimizer = ""
	}
	if k.s.Offload == "optimizer" {
		k.s.Offload = "none"
	}
	m.Lock()
	x, ok := m.steps[k]
	m.Unlock()
	if ok {
		return x
	}
	x = work()
	m.Lock()
	defer m.Unlock()
	if m.steps == nil || len(m.steps) >= memoSize {
		m.steps = map[memoKey]simulated{}
	}
	m.steps[k] = x
	return x
}
