package recipe

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/internal/cut"
	"github.com/vramscope/vramscope/internal/units"
)

// Said is what became of a file: which fields were used and as which flags, what follows
// from what they say together or from whose file it is, and which fields were passed over.
// A plain one tells no names or values.
func (r *Recipe) Said(name string, plain bool) []string {
	if plain {
		said := []string{fmt.Sprintf("%s: %s", r.Format, typed(r.Flags()))}
		if n := len(r.Open); n > 0 {
			said = append(said, "not counted of it, though the peak may depend on it: "+units.Plural(n, "field"))
		}
		return said
	}
	var used, implied []string
	for _, x := range r.Fields {
		flags := typed(x.Flags)
		switch {
		case x.Name == "" && flags != "":
			implied = append(implied, flags)
		case flags != "":
			used = append(used, fmt.Sprintf("%s %s → %s", Clipped(x.Name), Clipped(x.Value), flags))
		case x.Name != "":
			used = append(used, Clipped(x.Name)+" "+Clipped(x.Value))
		}
	}
	var said []string
	if len(r.Open) > 0 {
		said = append(said, fmt.Sprintf("not counted of %s, though the peak may depend on it: %s", name, someOf(r.Open)))
	}
	said = append(said, fmt.Sprintf("%s (%s): %s", name, r.Format, strings.Join(used, "; ")))
	if len(implied) > 0 {
		said = append(said, "implied by it: "+strings.Join(implied, " "))
	}
	if n := len(r.Ignored) - r.openFields; n > 0 {
		said = append(said, "not used of it, as they take no memory: "+units.Plural(n, "field")+" (--format json names them)")
	}
	return said
}

// typed are flags as they are typed.
func typed(flags []Flag) string {
	var words []string
	for _, g := range flags {
		if g.Value == "true" {
			words = append(words, "--"+g.Name)
			continue
		}
		words = append(words, "--"+g.Name+" "+Clipped(g.Value))
	}
	return strings.Join(words, " ")
}

const (
	ignoredShown = 20
	clippedRunes = 60
)

func someOf(names []string) string {
	var words []string
	for _, n := range names[:min(len(names), ignoredShown)] {
		words = append(words, Clipped(n))
	}
	if more := len(names) - ignoredShown; more > 0 {
		words = append(words, fmt.Sprintf("and %d more (--format json lists all)", more))
	}
	return strings.Join(words, ", ")
}

// Clipped keeps a word from filling a terminal.
func Clipped(s string) string { return cut.Letters(s, clippedRunes+1) }

// Document is what JSON says of a file.
type Document struct {
	File    string          `json:"file"`
	Format  string          `json:"format"`
	Model   string          `json:"model"`
	Fields  []FieldDocument `json:"fields"`
	Ignored []string        `json:"ignored"`
	Open    []string        `json:"open"` // of those ignored, with their values, what a peak may depend on
}

// FieldDocument is a field with the flags that mean the same; name is empty for what
// the framework does unasked.
type FieldDocument struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Flags string `json:"flags"`
}

// Document is the recipe as JSON has it; a plain one has the flags alone.
func (r *Recipe) Document(name string, plain bool) Document {
	if plain {
		return Document{Format: r.Format, Fields: []FieldDocument{{Flags: typed(r.Flags())}}, Ignored: []string{},
			Open: []string{}}
	}
	d := Document{File: name, Format: r.Format, Model: r.Model, Fields: []FieldDocument{}, Ignored: append([]string{},
		r.Ignored...), Open: append([]string{}, r.Open...)}
	for _, x := range r.Fields {
		d.Fields = append(d.Fields, FieldDocument{x.Name, x.Value, typed(x.Flags)})
	}
	return d
}
