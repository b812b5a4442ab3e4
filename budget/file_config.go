package budget

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/vramscope/vramscope/internal/cut"
	"github.com/vramscope/vramscope/internal/limit"
)

// Config is a model's config.json: its own fields, and behind them the
// defaults of the Transformers class of its model_type.
type Config struct {
	Type     string // model_type
	fields   map[string]any
	defaults map[string]any
	alias    map[string]string
	spare    *atomic.Pointer[model] // a network that nobody uses at the moment
	memo     *memo                  // steps that were simulated
	extra    int64                  // parameters beyond the shape's, for a model known by its size only
	assumed  string                 // what was assumed, in words
	file     *Packed                // the weights of a quantised checkpoint, nil without one
}

//go:embed defaults.json
var defaultsJSON []byte

type classDefaults struct {
	Fields map[string]any    `json:"fields"`
	Alias  map[string]string `json:"alias"`
}

// classes are the defaults of each model_type's configuration class
// (transformers 5.23), decoded one type at a time.
var classes = sync.OnceValue(func() map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(defaultsJSON, &m); err != nil {
		panic("budget: defaults.json: " + err.Error()) // a broken build, found by any test
	}
	return m
})

// ReadConfig reads a config.json.
func ReadConfig(r io.Reader) (*Config, error) {
	data, err := io.ReadAll(limit.Reader(limit.Config, r))
	if err != nil {
		return nil, fmt.Errorf("not a model configuration: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(plainJSON(data)))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return nil, fmt.Errorf("offset %d: not a model configuration: %w", brokenAt(err, len(data)), err)
	}
	return newConfig(m)
}

// notNumbers are what Python's json writes for floats that JSON has no word for.
var notNumbers = []string{"-Infinity", "Infinity", "NaN"}

// plainJSON puts an empty value of the same length in the place of Python's
// Infinity and NaN outside of strings, and of a byte-order mark.
func plainJSON(data []byte) []byte {
	out := bytes.Clone(data)
	if bytes.HasPrefix(out, []byte("\ufeff")) {
		copy(out, "   ")
	}
	inside := false
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case inside && c == '\\':
			i++
		case c == '"':
			inside = !inside
		case !inside && (c == '-' || c == 'I' || c == 'N'):
			for _, word := range notNumbers {
				if bytes.HasPrefix(out[i:], []byte(word)) {
					copy(out[i:], `""`+strings.Repeat(" ", len(word)-2))
					i += len(word) - 1
					break
				}
			}
		}
	}
	return out
}

// brokenAt is where JSON of so many bytes can't be read.
func brokenAt(err error, size int) int64 {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return max(syntax.Offset-1, 0) // it counts the byte that is wrong
	case errors.As(err, &kind):
		return max(kind.Offset-1, 0)
	}
	return int64(size) // it ends too early
}

// newConfig wraps the fields of a config.json.
func newConfig(fields map[string]any) (*Config, error) {
	t, _ := fields["model_type"].(string)
	if class, _ := fields["_class_name"].(string); t == "" && (class != "" || fields["_diffusers_version"] != nil) {
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
	return sub(t, fields), nil
}

// short keeps a hostile name from filling the terminal.
func short(s string) string { return cut.Letters(s, 61) }

func sub(t string, fields map[string]any) *Config {
	c := &Config{Type: t, fields: fields, spare: new(atomic.Pointer[model]), memo: new(memo)}
	if raw, ok := classes()[t]; ok {
		var d classDefaults
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		if dec.Decode(&d) == nil {
			c.defaults, c.alias = d.Fields, d.Alias
		}
	}
	return c
}

// nested is a configuration inside the configuration, of a given type.
func (c *Config) nested(key, t string) *Config {
	m, _ := c.fields[key].(map[string]any)
	if own, _ := m["model_type"].(string); own != "" && classes()[own] != nil {
		t = own
	}
	if m == nil {
		m = map[string]any{}
	}
	return sub(t, m)
}

// get finds a field under any of its names; null counts as missing.
func (c *Config) get(name string) any {
	if v := c.fields[name]; v != nil {
		return v
	}
	if other := c.alias[name]; other != "" {
		if v := c.fields[other]; v != nil {
			return v
		}
	}
	for from, to := range c.alias {
		if to == name {
			if v := c.fields[from]; v != nil {
				return v
			}
		}
	}
	for _, legacy := range legacyNames[name] {
		if v := c.fields[legacy]; v != nil {
			return v
		}
	}
	if v, set := c.fields[name]; set && v == nil && nullCounts[name] {
		return nil
	}
	if v := c.defaults[name]; v != nil {
		return v
	}
	return c.defaults[c.alias[name]]
}

// nullCounts are fields in which an explicit null means none, not the default.
var nullCounts = map[string]bool{
	"sliding_window": true, "q_lora_rank": true, "final_logit_softcapping": true, "attn_logit_softcapping": true,
	"rotary_dim": true, "num_key_value_heads": true, "num_kv_heads": true, "n_shared_experts": true,
}

// legacyNames are names that older files use.
var legacyNames = map[string][]string{
	"hidden_size":             {"d_model", "n_embd", "n_embed", "dim"},
	"num_hidden_layers":       {"n_layer", "n_layers", "num_layers"},
	"num_attention_heads":     {"n_head", "n_heads", "num_heads"},
	"max_position_embeddings": {"n_positions", "n_ctx"},
	"num_kv_heads":            {"n_head_kv"},
	"state_size":              {"d_state"},
	"conv_kernel":             {"d_conv"},
	"num_experts_per_tok":     {"num_experts_per_token"},
	"rotary_pct":              {"partial_rotary_factor"},
	"partial_rotary_factor":   {"rotary_pct"},
	"head_dim":                {"attention_head_dim"},
	"n_layer":                 {"num_hidden_layers", "num_layers"},
	"n_head":                  {"num_attention_heads"},
}

// Int is a whole number, 0 when the field is missing or none.
func (c *Config) Int(name string) int64 { return asInt(c.get(name)) }

func asInt(v any) int64 {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		if f, err := v.Float64(); err == nil && math.Abs(f) < 1<<62 {
			return int64(f)
		}
	case float64:
		if math.Abs(v) < 1<<62 {
			return int64(v)
		}
	case int:
		return int64(v)
	case int64:
		return v
	case bool:
		if v {
			return 1
		}
	}
	return 0
}

// IntOr is a whole number or a value computed from other fields.
func (c *Config) IntOr(name string, other int64) int64 {
	if c.get(name) == nil {
		return other
	}
	return c.Int(name)
}

// Float is a real number, 0 when missing.
func (c *Config) Float(name string) float64 {
	switch v := c.get(name).(type) {
	case json.Number:
		f, _ := v.Float64()
		return f
	case float64:
		return v
	}
	return 0
}

// Bool is a flag, false when missing.
func (c *Config) Bool(name string) bool {
	switch v := c.get(name).(type) {
	case bool:
		return v
	case json.Number, float64, int:
		return asInt(v) != 0
	}
	return false
}

// Str is a word, empty when missing.
func (c *Config) Str(name string) string {
	s, _ := c.get(name).(string)
	return s
}

// list is a list of numbers or words.
func (c *Config) list(name string) []any {
	l, _ := c.get(name).([]any)
	return l
}

// has says whether the file itself sets a field.
// words are a list of strings, which older files spell in one, with bars between.
func (c *Config) words(name string) []string {
	var out []string
	if s, ok := c.get(name).(string); ok {
		for _, w := range strings.Split(strings.ToLower(s), "|") {
			out = append(out, strings.TrimSpace(w))
		}
	}
	for _, v := range c.list(name) {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

func (c *Config) has(name string) bool { return c.fields[name] != nil }

// with is a copy with one field changed.
func (c *Config) with(name string, v any) *Config {
	d := *c
	d.spare, d.memo = new(atomic.Pointer[model]), new(memo)
	d.fields = maps.Clone(c.fields)
	d.fields[name] = v
	for from, to := range c.alias {
		if from == name || to == name {
			d.fields[from], d.fields[to] = v, v
		}
	}
	return &d
}

// tied says whether the head shares the embedding's weight.
func (c *Config) tied() bool { return c.Bool("tie_word_embeddings") }

// architecture is the class that the file names, empty without one.
func (c *Config) architecture() string {
	if l := c.list("architectures"); len(l) > 0 {
		s, _ := l[0].(string)
		return s
	}
	return ""
}

// labels is the number of classes of a classifier's head.
func (c *Config) labels() int64 {
	if n := c.Int("num_labels"); n > 0 {
		return n
	}
	if m, ok := c.get("id2label").(map[string]any); ok && len(m) > 0 {
		return int64(len(m))
	}
	if c.Type == "vit" {
		return 1000
	}
	if c.Type == "bart" {
		return 3
	}
	return 2
}

// need checks what every later product relies on: sizes that are
// positive and small enough that nothing overflows.
func (c *Config) need(names ...string) error {
	for _, n := range names {
		v := c.Int(n)
		if v <= 0 || v > 1<<31 {
			return fmt.Errorf("%s: %s is %v, which no model has", c.Type, n, c.get(n))
		}
	}
	return nil
}
