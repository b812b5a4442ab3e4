// Package modelfile reads a model's own files: a config.json, with the defaults of its class in
// Transformers (defaults.json) behind it, the headers of checkpoints, and how either says that
// weights are packed.
package modelfile

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/vramscope/vramscope/internal/cut"
	"github.com/vramscope/vramscope/internal/limit"
	"github.com/vramscope/vramscope/internal/pattern"
)

// Config is a model's config.json: its own fields, and behind them the
// defaults of the Transformers class of its model_type.
type Config struct {
	Type     string // model_type
	fields   map[string]any
	defaults map[string]any
	alias    map[string]string
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
		panic("modelfile: defaults.json: " + err.Error()) // a broken build, found by any test
	}
	return m
})

// Fields reads the fields of a config.json.
func Fields(r io.Reader) (map[string]any, error) {
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
	return m, nil
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

// short keeps a hostile name from filling the terminal.
func short(s string) string { return cut.Letters(s, 61) }

// New is a configuration of a model_type with these fields.
func New(t string, fields map[string]any) *Config {
	c := &Config{Type: t, fields: fields}
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

// As is the configuration of another model_type with the same fields.
func (c *Config) As(t string) *Config { return New(t, c.fields) }

// Like is the configuration, its own class's defaults included, taken for another model_type's.
func (c *Config) Like(t string) *Config {
	d := *c
	d.Type = t
	return &d
}

// Nested is a configuration inside the configuration, of a given type.
func (c *Config) Nested(key, t string) *Config {
	m := c.Map(key)
	if own, _ := m["model_type"].(string); own != "" && classes()[own] != nil {
		t = own
	}
	if m == nil {
		m = map[string]any{}
	}
	return New(t, m)
}

// Own is what the file itself says, nil where it says nothing.
func (c *Config) Own(name string) any { return c.fields[name] }

// Map is an object that the file itself has, nil without.
func (c *Config) Map(name string) map[string]any {
	m, _ := c.fields[name].(map[string]any)
	return m
}

// Get finds a field under any of its names; null counts as missing.
func (c *Config) Get(name string) any {
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
func (c *Config) Int(name string) int64 { return AsInt(c.Get(name)) }

// AsInt is a field's value as a whole number, 0 when it is none.
func AsInt(v any) int64 {
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
	if c.Get(name) == nil {
		return other
	}
	return c.Int(name)
}

// Float is a real number, 0 when missing.
func (c *Config) Float(name string) float64 {
	switch v := c.Get(name).(type) {
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
	switch v := c.Get(name).(type) {
	case bool:
		return v
	case json.Number, float64, int:
		return AsInt(v) != 0
	}
	return false
}

// Str is a word, empty when missing.
func (c *Config) Str(name string) string {
	s, _ := c.Get(name).(string)
	return s
}

// List is a list of numbers or words.
func (c *Config) List(name string) []any {
	l, _ := c.Get(name).([]any)
	return l
}

// Ints are a list of whole numbers, with 0 for what is none.
func (c *Config) Ints(name string) (ns []int64) {
	for _, v := range c.List(name) {
		ns = append(ns, AsInt(v))
	}
	return ns
}

// Words are a list of strings, which older files spell in one, with bars between.
func (c *Config) Words(name string) []string {
	var out []string
	if s, ok := c.Get(name).(string); ok {
		for _, w := range strings.Split(strings.ToLower(s), "|") {
			out = append(out, strings.TrimSpace(w))
		}
	}
	for _, v := range c.List(name) {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// Has says whether the file itself sets a field.
func (c *Config) Has(name string) bool { return c.fields[name] != nil }

// IsNull reports whether a field is there and says nothing.
func (c *Config) IsNull(name string) bool {
	v, there := c.fields[name]
	return there && v == nil
}

// With is a copy with one field changed.
func (c *Config) With(name string, v any) *Config {
	d := *c
	d.fields = maps.Clone(c.fields)
	d.fields[name] = v
	for from, to := range c.alias {
		if from == name || to == name {
			d.fields[from], d.fields[to] = v, v
		}
	}
	return &d
}

// WithText changes a field of the language model, whose fields stand apart where a model has others beside it.
func (c *Config) WithText(name string, v any) *Config {
	if t := c.Map(textConfig); t != nil {
		return c.With(textConfig, (&Config{fields: t}).With(name, v).fields)
	}
	return c.With(name, v)
}

const textConfig = "text_config"

// Tied says whether the head shares the embedding's weight.
func (c *Config) Tied() bool { return c.Bool("tie_word_embeddings") }

// Architecture is the class that the file names, empty without one.
func (c *Config) Architecture() string {
	if l := c.List("architectures"); len(l) > 0 {
		s, _ := l[0].(string)
		return s
	}
	return ""
}

// bodyOf is a class's name without the head that it puts on the model.
var bodyOf = pattern.Of(`^(\w+?)(For[A-Z]\w*|LMHeadModel|DoubleHeadsModel|Model)$`)

// Headed is the model with another head, as SequenceClassification, and so many labels where they are told.
func (c *Config) Headed(head string, labels int64) *Config {
	name := c.Type
	if m := bodyOf().FindStringSubmatch(c.Architecture()); m != nil {
		name = m[1]
	}
	d := c.With("architectures", []any{name + "For" + head})
	if labels > 0 {
		d = d.With("num_labels", labels)
	}
	return d
}

// HeadOf has the head of another configuration, in which this one is, with its labels.
func (c *Config) HeadOf(whole *Config) *Config {
	return c.With("architectures", whole.Get("architectures")).With("num_labels", whole.Labels())
}

// TooLong names a list with more entries than any model has, which each of its layers would read; "" without one.
// Names of what isn't packed, of which there may be many, are read once.
func TooLong(fields map[string]any) string {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch v := fields[name].(type) {
		case []any:
			if len(v) > mostEntries {
				return name
			}
		case map[string]any:
			if long := TooLong(v); long != "" && name != "quantization_config" && name != "compression_config" {
				return long
			}
		}
	}
	return ""
}

const mostEntries = 1 << 12

// Width is the type that weights are saved in by the configuration: bf16, fp16 or fp32; "" where it names none.
func (c *Config) Width() string {
	for _, name := range []string{"dtype", "torch_dtype"} {
		if w := widths[strings.TrimPrefix(c.Str(name), "torch.")]; w != "" {
			return w
		}
	}
	return ""
}

var widths = map[string]string{"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}

// Labels is the number of classes of a classifier's head.
func (c *Config) Labels() int64 {
	if n := AsInt(c.Own("num_labels")); n > 0 {
		return n
	}
	if m, ok := c.Get("id2label").(map[string]any); ok && len(m) > 0 {
		return int64(len(m))
	}
	if c.Type == "vit" && !c.Has("architectures") { // as it was published
		return 1000
	}
	return c.IntOr("num_labels", 2) // of the class
}

// Need checks what every later product relies on: sizes that are
// positive and small enough that nothing overflows.
func (c *Config) Need(names ...string) error {
	for _, n := range names {
		v := c.Int(n)
		if v <= 0 || v > 1<<31 {
			return fmt.Errorf("%s: %s is %v, which no model has", c.Type, n, c.Get(n))
		}
	}
	return nil
}
