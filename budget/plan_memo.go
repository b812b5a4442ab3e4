package budget

import "sync"

// simulated is what a simulated step leaves behind.
type simulated struct {
	peaks, ends [numPhases]instant
}

// memo keeps the last steps of a configuration: settings that differ in the
// optimizer or the allocator alone have the same forward and backward.
type memo struct {
	sync.Mutex
	steps map[memoKey]simulated
}

type memoKey struct {
	s    Setting
	kept bool
}

// memoSize bounds what is kept; a ladder has a dozen settings.
const memoSize = 64

// simulated is simulate, or what it gave before.
func (p *plan) simulated(kept bool, prepare func(*run)) simulated {
	work := func() simulated {
		r := p.simulate(kept, prepare)
		return simulated{r.m.peaks, r.ends}
	}
	m := p.model.config.memo
	if m == nil || prepare != nil || p.PP > 1 {
		return work()
	}
	k := memoKey{p.Setting, kept}
	k.s.MasterWeights, k.s.Allocator, k.s.reserve = false, "", 0
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
