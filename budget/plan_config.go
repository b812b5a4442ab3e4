package budget

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/vramscope/vramscope/budget/modelfile"
	"github.com/vramscope/vramscope/budget/network"
)

// Config is a model's config.json, and what was worked out of it.
type Config struct {
	*modelfile.Config
	spare   *atomic.Pointer[network.Model] // a network that nobody uses at the moment
	memo    *atomic.Pointer[remembered]    // the last budget
	extra   int64                          // parameters beyond the shape's, for a model known by its size only
	assumed string                         // what was assumed, in words
	file    *modelfile.Packed              // the weights of a quantised checkpoint, nil without one
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
	if long := modelfile.TooLong(fields); long != "" {
		return nil, fmt.Errorf("the configuration's %s has %d entries or more: no model has as many layers", network.Short(long),
			network.MaxLayers)
	}
	t, _ := fields["model_type"].(string)
	class, _ := fields["_class_name"].(string)
	if class == network.UNetClass {
		return denoiserConfig(fields)
	}
	if t == "" && (class != "" || fields["_diffusers_version"] != nil) {
		return nil, fmt.Errorf("diffusion isn't counted: %q is of diffusers, and no size given with --params stands for it",
			network.Short(class))
	}
	if t == "" {
		return nil, fmt.Errorf("the configuration has no model_type: give a Transformers config.json, a checkpoint with " +
			"--model, or a size with --params")
	}
	if why := network.Uncounted[t]; why != "" {
		return nil, fmt.Errorf("%s isn't counted: %s", t, why)
	}
	if !network.Known(t) {
		return nil, fmt.Errorf("the tensors of model_type %q are not known: give the checkpoint's header with --model "+
			"FILE.safetensors, or its size with --params (known: %s)",
			network.Short(t), strings.Join(network.Families(), " "))
	}
	return new(Config).of(modelfile.New(t, fields)), nil
}

// build makes the configuration's network.
func (c *Config) build() (*network.Model, error) { return network.New(c.Config, c.extra, c.file) }

// of is the configuration with these fields.
func (c *Config) of(fields *modelfile.Config) *Config {
	d := *c
	d.Config, d.spare, d.memo = fields, new(atomic.Pointer[network.Model]), new(atomic.Pointer[remembered])
	return &d
}

func (c *Config) with(name string, v any) *Config { return c.of(c.With(name, v)) }

// Headed is the model with another head on it, as AutoModelForSequenceClassification and its like put one there.
func (c *Config) Headed(head string, labels int64) *Config {
	return c.of(c.Config.Headed(head, labels))
}

// seen is the configuration's network to look at; who takes it for a budget leaves none.
func (c *Config) seen() (*network.Model, error) {
	m, err := c.network()
	if err == nil {
		c.spare.Store(m)
	}
	return m, err
}

// Positions is how many tokens a sequence can have when positions are looked up
// in a learned table, 0 for models that work them out (rotary, ALiBi, relative).
func (c *Config) Positions() int64 {
	m, err := c.seen()
	if err != nil {
		return 0
	}
	return m.Positions()
}

// withinPositions refuses tokens that a learned table has no row for: the
// program would fail where it looks them up.
func (p *holding) withinPositions() error {
	if w := p.model.Waves; w != nil && w.Frames(p.Sequence) == 0 {
		return fmt.Errorf("--seq %d: %s takes samples of sound, of which its convolutions need more for one position", p.Sequence,
			p.model.Config.Type)
	}
	n := p.model.Positions()
	if n <= 0 {
		return nil
	}
	refuse := func(what string, tokens int64) error {
		return fmt.Errorf("%s %d: %s has learned positions for %d tokens, and a program fails at the next", what, tokens,
			p.model.Config.Type, n)
	}
	e := p.model.Encoder
	switch context := p.Context + p.NewTokens; {
	case p.Engine != "" && context > n:
		return refuse("--context", context)
	case p.Sequence > n:
		return refuse("--seq", p.Sequence)
	case e != nil && e.Sound == nil && p.decoderTokens() > n:
		return refuse("--decoder-seq", p.decoderTokens())
	case p.Inference && p.model.Generates() && context > n:
		return refuse("a context with new tokens of", context)
	}
	return nil
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

// Count counts the parameters of a configuration.
func Count(c *Config) (_ network.Counts, err error) {
	defer c.broken(&err)
	m, err := c.build()
	if err != nil {
		return network.Counts{}, err
	}
	return m.Counts(), nil
}

// RankTensors lists the weights that one rank of a setting holds before anything is sharded, and
// those of adapters.
func RankTensors(c *Config, s Setting) (model, adapters []modelfile.Tensor, err error) {
	defer c.broken(&err)
	if s, err = c.Complete(s); err != nil {
		return nil, nil, err
	}
	p, err := newPlan(c, s)
	if err != nil {
		return nil, nil, err
	}
	for _, q := range p.adapters {
		adapters = append(adapters, q.Tensor)
	}
	for _, q := range p.model.Params {
		model = append(model, q.Tensor)
	}
	return model, adapters, nil
}

// Tensors lists every weight of a configuration, by name and shape.
func Tensors(c *Config) ([]modelfile.Tensor, error) {
	m, err := c.build()
	if err != nil {
		return nil, err
	}
	ts := make([]modelfile.Tensor, len(m.Params))
	for i, p := range m.Params {
		ts[i] = p.Tensor
	}
	return ts, nil
}
