package budget

import (
	"slices"
	"sync"
)

// memo keeps the last budget of a configuration: what fits and what would help start from it.
type memo struct {
	sync.Mutex
	last *Budget
	of   Setting
}

// budget is the last one, where it was of this setting.
func (m *memo) budget(s Setting) *Budget {
	m.Lock()
	defer m.Unlock()
	if m.last == nil || m.of != s {
		return nil
	}
	return m.last.copy()
}

func (m *memo) keep(s Setting, b *Budget) {
	if s.Reserve > 0 || s.Fullest > 0 { // an estimate
		return
	}
	m.Lock()
	defer m.Unlock()
	m.last, m.of = b.copy(), s
}

// copy is one that its owner may change.
func (b *Budget) copy() *Budget {
	c := *b
	c.Phases, c.Stages, c.Notes = slices.Clone(b.Phases), slices.Clone(b.Stages), slices.Clone(b.Notes)
	return &c
}
