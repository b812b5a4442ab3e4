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

// short keeps a hostile name from filling the terminal.
func short(s string) string { return cut.Letters(s, 61) }
