package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"

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
	if ranks := s.GPUs / max(s.TP*s.PP, 1); ranks < 2 && (slices.Contains(set, "fsdp") || slices.Contains(set,
		"zero") && s.Zero > 0) {
		s.FSDP, s.Zero = "", 0
		if !cmd.Flags().Changed("gpus") {
			r.notes = append(r.notes, "how many GPUs share the model no file says: counted unsharded; give --gpus N")
		}
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
				f.name, recipe.Clipped(f.Model)))
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
					recipe.Clipped(f.Model))
		}
	}
	return nil, fmt.Errorf("%s names no model: give --config FILE, --model FILE or --params 8B", r.files[0].name)
}

// said is what became of the files.
func (r *recipes) said() (notes []string) {
	for _, f := range r.files {
		notes = append(notes, f.Said(f.name, r.plain)...)
	}
	if r.plain {
		return notes
	}
	return append(notes, r.notes...)
}

func (r *recipes) documents() []recipe.Document {
	ds := make([]recipe.Document, 0, len(r.files))
	for _, f := range r.files {
		ds = append(ds, f.Document(f.name, r.plain))
	}
	return ds
}
