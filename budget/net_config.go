package budget

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/vramscope/vramscope/budget/modelfile"
	"github.com/vramscope/vramscope/internal/cut"
)

// Config is a model's config.json, and what was worked out of it.
type Config struct {
	*modelfile.Config
	spare   *atomic.Pointer[model] // a network that nobody uses at the moment
	memo    *memo                  // steps that were simulated
	extra   int64                  // parameters beyond the shape's, for a model known by its size only
	assumed string                 // what was assumed, in words
	file    *modelfile.Packed      // the weights of a quantised checkpoint, nil without one
}

// ReadConfig reads a config.json of a family that is known.
func ReadConfig(r io.Reader) (*Config, error) {
	m, err := modelfile.Fields(r)
	if err != nil {
		return nil, err
	}
	return newConfig(m)
}

// newConfig wraps the fields of a config.json.
func newConfig(fields map[string]any) (*Config, error) {
	t, _ := fields["model_type"].(string)
	class, _ := fields["_class_name"].(string)
	if class == unetClass {
		return denoiserConfig(fields)
	}
	if t == "" && (class != "" || fields["_diffusers_version"] != nil) {
		return nil, fmt.Errorf("diffusion isn't counted: %q is of diffusers, and no size given with --params stands for it",
			short(class))
	}
	if t == "" {
		return nil, fmt.Errorf("the configuration has no model_type: give a Transformers config.json, a checkpoint with " +
			"--model, or a size with --params")
	}
	if why := uncounted[t]; why != "" {
		return nil, fmt.Errorf("%s isn't counted: %s", t, why)
	}
	if familyOf(t) == nil {
		return nil, fmt.Errorf("the tensors of model_type %q are not known: give the checkpoint's header with --model "+
			"FILE.safetensors, or its size with --params (known: %s)",
			short(t), strings.Join(knownFamilies(), " "))
	}
	return new(Config).of(modelfile.New(t, fields)), nil
}

// of is the configuration with these fields.
func (c *Config) of(fields *modelfile.Config) *Config {
	d := *c
	d.Config, d.spare, d.memo = fields, new(atomic.Pointer[model]), new(memo)
	return &d
}

func (c *Config) with(name string, v any) *Config { return c.of(c.With(name, v)) }

// Headed is the model with another head on it, as AutoModelForSequenceClassification and its like put one there.
func (c *Config) Headed(head string, labels int64) *Config {
	return c.of(c.Config.Headed(head, labels))
}

// short keeps a hostile name from filling the terminal.
func short(s string) string { return cut.Letters(s, 61) }

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

// Bounded takes a setting's sequence within the model's positions where nobody asked for a length, and says of one that was
// asked for where the model has none.
func (c *Config) Bounded(s *Setting, asked bool) (notes []string) {
	n := c.Positions()
	switch {
	case asked && c.Unsequenced():
		return []string{fmt.Sprintf("--seq %d changes nothing: %s takes pictures, whose size is its own", s.Sequence, c.Type)}
	case n > 0 && !asked: // what nobody asked for is not what to refuse
		s.Sequence = min(s.Sequence, max(n-s.NewTokens, 1))
	}
	return nil
}
