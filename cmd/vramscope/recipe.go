package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/budget/recipe"
	"github.com/vramscope/vramscope/internal/open"
)

// recipes are the files of frameworks that a setting comes from, and what became of them.
type recipes struct {
	paths []string // of the flag --recipe
	files []recipeFile
	notes []string // what they say together, and what of it doesn't count
	plain bool     // names and values aren't told
}

// recipeFile is one of them, under the name that it is told by.
type recipeFile struct {
	name string
	*recipe.Recipe
}

const recipeHelp = "take the setting from a framework's own `FILE`: torchtune, axolotl, LLaMA-Factory, accelerate, torchtitan, " +
	"TrainingArguments, DeepSpeed, Megatron, vLLM or SGLang arguments (repeatable; flags win)"

// read reads the named files.
func (r *recipes) read(stdin io.Reader) error {
	for _, path := range r.paths {
		x, err := open.Recipe(path, stdin)
		if err != nil {
			return err
		}
		r.files = append(r.files, recipeFile{path, x})
	}
	return nil
}

func (r *recipes) all() []*recipe.Recipe {
	rs := make([]*recipe.Recipe, len(r.files))
	for i := range r.files {
		rs[i] = r.files[i].Recipe
	}
	return rs
}

// apply sets the flags that the user hasn't, and gives their names.
func (r *recipes) apply(cmd *cobra.Command, s *budget.Setting) (set []string, err error) {
	for _, g := range recipe.Together(r.all()) {
		flag := cmd.Flags().Lookup(g.Name)
		if flag == nil || flag.Changed {
			continue
		}
		if err := flag.Value.Set(g.Value); err != nil {
			return nil, fmt.Errorf("%s: --%s %q: %w", r.files[0].name, g.Name, g.Value, err)
		}
		flag.Changed = true
		set = append(set, g.Name)
	}
	if ranks := s.GPUs / max(s.TP*s.PP, 1); ranks < 2 && (s.FSDP != "" || s.Zero > 0) && !cmd.Flags().Changed("gpus") {
		r.notes = append(r.notes, "how many GPUs share the model no file says: counted unsharded; give --gpus N")
		s.FSDP, s.Zero = "", 0
	}
	if len(r.files) > 0 && !cmd.Flags().Changed("seq") && !cmd.Flags().Changed("context") {
		r.notes = append(r.notes, "how long sequences are no file says: give --seq N")
	}
	return set, nil
}

// config is the model's that the files describe or name; nil where they do neither.
func (r *recipes) config() (*budget.Config, error) {
	for _, f := range r.files {
		fields, called := f.Config()
		if fields == nil {
			continue
		}
		text, err := json.Marshal(fields)
		if err != nil {
			return nil, err
		}
		c, err := budget.ReadConfig(bytes.NewReader(text))
		if err == nil {
			_, err = budget.Count(c)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		if called != "" {
			r.notes = append(r.notes, fmt.Sprintf("the model is taken as %s, which %s calls %s; --config FILE takes another",
				called,
				f.name, clipped(f.Model)))
		}
		return c, nil
	}
	return nil, nil
}

// beside is the configuration in the folder that a file names as its model; nil without one.
func (r *recipes) beside() *budget.Config {
	for _, f := range r.files {
		at := f.Sibling(f.name)
		if at == "" {
			continue
		}
		if c, err := open.ReadConfig(at); err == nil {
			r.notes = append(r.notes, "the model is that of "+at)
			return c
		}
	}
	return nil
}

// model is the one that the files tell of.
func (r *recipes) model() (*budget.Config, error) {
	if c := r.beside(); c != nil {
		return c, nil
	}
	c, err := r.config()
	if c != nil || err != nil {
		return c, err
	}
	for _, f := range r.files {
		if f.Model != "" {
			return nil,
				fmt.Errorf("%s: the shape of its model %q isn't known: give --config FILE, --model FILE or --params 8B", f.name,
					clipped(f.Model))
		}
	}
	return nil, fmt.Errorf("%s names no model: give --config FILE, --model FILE or --params 8B", r.files[0].name)
}

// said is what became of the files: which fields were used and as which flags, what the
// framework does unasked, and which fields were passed over.
func (r *recipes) said() (notes []string) {
	for _, f := range r.files {
		if r.plain {
			notes = append(notes, fmt.Sprintf("%s: %s", f.Format, recipeFlags(f.Flags())))
			continue
		}
		var used, unasked []string
		for _, x := range f.Fields {
			flags := recipeFlags(x.Flags)
			switch {
			case x.Name == "" && flags != "":
				unasked = append(unasked, flags)
			case flags != "":
				used = append(used, fmt.Sprintf("%s %s → %s", clipped(x.Name), clipped(x.Value), flags))
			case x.Name != "":
				used = append(used, clipped(x.Name)+" "+clipped(x.Value))
			}
		}
		notes = append(notes, fmt.Sprintf("%s (%s): %s", f.name, f.Format, strings.Join(used, "; ")))
		if len(unasked) > 0 {
			notes = append(notes, "implied by it: "+strings.Join(unasked, " "))
		}
		if len(f.Ignored) > 0 {
			notes = append(notes, fmt.Sprintf("not used of it: %s", someOf(f.Ignored)))
		}
	}
	if r.plain {
		return notes
	}
	return append(notes, r.notes...)
}

// recipeFlags are flags as they are typed.
func recipeFlags(flags []recipe.Flag) string {
	var words []string
	for _, g := range flags {
		if g.Value == "true" {
			words = append(words, "--"+g.Name)
			continue
		}
		words = append(words, "--"+g.Name+" "+clipped(g.Value))
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
		words = append(words, clipped(n))
	}
	if more := len(names) - ignoredShown; more > 0 {
		words = append(words, fmt.Sprintf("and %d more (--format json lists all)", more))
	}
	return strings.Join(words, ", ")
}

// clipped keeps a word from filling a terminal.
func clipped(s string) string {
	if r := []rune(s); len(r) > clippedRunes {
		return string(r[:clippedRunes]) + "…"
	}
	return s
}

// recipeDocument is what JSON says of a file.
type recipeDocument struct {
	File    string                `json:"file"`
	Format  string                `json:"format"`
	Model   string                `json:"model"`
	Fields  []recipeFieldDocument `json:"fields"`
	Ignored []string              `json:"ignored"`
}

// recipeFieldDocument is a field with the flags that mean the same; name is empty for what
// the framework does unasked.
type recipeFieldDocument struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Flags string `json:"flags"`
}

func (r *recipes) documents() []recipeDocument {
	ds := make([]recipeDocument, 0, len(r.files))
	for _, f := range r.files {
		if r.plain {
			ds = append(ds, recipeDocument{Format: f.Format, Fields: []recipeFieldDocument{{Flags: recipeFlags(f.Flags())}},
				Ignored: []string{}})
			continue
		}
		d := recipeDocument{File: f.name, Format: f.Format, Model: f.Model, Fields: []recipeFieldDocument{},
			Ignored: append([]string{},
				f.Ignored...)}
		for _, x := range f.Fields {
			d.Fields = append(d.Fields, recipeFieldDocument{x.Name, x.Value, recipeFlags(x.Flags)})
		}
		ds = append(ds, d)
	}
	return ds
}
