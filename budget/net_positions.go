package budget

import "fmt"

// Positions is how many tokens a sequence can have when positions are looked up
// in a learned table, 0 for models that work them out (rotary, ALiBi, relative).
func (c *Config) Positions() int64 {
	m, err := c.network()
	if err != nil {
		return 0
	}
	c.spare.Store(m)
	return m.positions()
}

// positions are the table's rows that tokens use.
func (m *model) positions() int64 {
	if m.position == nil || m.patch != nil {
		return 0
	}
	n := m.position.Shape[0]
	switch m.config.Type {
	case "opt", "bart": // two rows in front are for nothing
		n -= 2
	case "roberta", "xlm-roberta", "camembert": // positions begin behind that of the padding
		n -= m.config.IntOr("pad_token_id", 1) + 1
	}
	return n
}

// withinPositions refuses tokens that a learned table has no row for: the
// program would fail where it looks them up.
func (p *plan) withinPositions() error {
	if w := p.model.waves; w != nil && w.frames(p.Sequence) == 0 {
		return fmt.Errorf("--seq %d: %s takes samples of sound, of which its convolutions need more for one position", p.Sequence,
			p.model.config.Type)
	}
	n := p.model.positions()
	if n <= 0 {
		return nil
	}
	refuse := func(what string, tokens int64) error {
		return fmt.Errorf("%s %d: %s has learned positions for %d tokens, and a program fails at the next", what, tokens,
			p.model.config.Type, n)
	}
	e := p.model.encoder
	switch context := p.Context + p.NewTokens; {
	case p.Engine != "" && context > n:
		return refuse("--context", context)
	case p.Sequence > n:
		return refuse("--seq", p.Sequence)
	case e != nil && e.conv == nil && p.decoderTokens() > n:
		return refuse("--decoder-seq", p.decoderTokens())
	case p.Inference && p.model.generates() && context > n:
		return refuse("a context with new tokens of", context)
	}
	return nil
}

// longest is the longest sequence within room; learned positions bound it.
func (c *Config) longest(unit, near, room int64, size func(int64) int64) int64 {
	if n := c.Positions(); n > 0 {
		if b := size(n); b >= 0 && b <= room {
			return n
		}
	}
	return largest(unit, near, limitSequence, room, size)
}
