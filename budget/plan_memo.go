package budget

import "slices"

// remembered is the last budget of a configuration: what fits and what would help start from it.
type remembered struct {
	of Setting
	b  *Budget
}

// remembered is that, where it was of this setting, nil where it wasn't.
func (c *Config) remembered(s Setting) *Budget {
	if m := c.memo.Load(); m != nil && m.of == s {
		return m.b.copy()
	}
	return nil
}

func (c *Config) remember(s Setting, b *Budget) {
	if s.Reserve == 0 && s.Fullest == 0 { // else an estimate
		c.memo.Store(&remembered{s, b.copy()})
	}
}

// copy is one that its owner may change.
func (b *Budget) copy() *Budget {
	c := *b
	c.Phases, c.Stages, c.Notes = slices.Clone(b.Phases), slices.Clone(b.Stages), slices.Clone(b.Notes)
	return &c
}
