package open

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/budget/recipe"
	"github.com/vramscope/vramscope/internal/units"
)

// Recipes are the files of frameworks that a setting comes from, and what became of them.
type Recipes struct {
	Files []RecipeFile
	Notes []string // what they say together, and what of it doesn't count
	Plain bool     // names and values aren't told
	plain []string // of the notes those without any
}

// note keeps one, and what it is without names, "" where nothing is left of it then.
func (r *Recipes) note(said, plain string) {
	if r.Notes = append(r.Notes, said); plain != "" {
		r.plain = append(r.plain, plain)
	}
}

// RecipeFile is one of them, under the name that it is told by.
type RecipeFile struct {
	Name string
	*recipe.Recipe
}

// Read adds files, up to the first that can't be read.
func (r *Recipes) Read(paths []string, stdin io.Reader) error {
	for _, path := range paths {
		x, err := Recipe(path, stdin)
		if err != nil {
			return err
		}
		r.Files = append(r.Files, RecipeFile{path, x})
	}
	return nil
}

// All are the files without their names.
func (r *Recipes) All() []*recipe.Recipe {
	rs := make([]*recipe.Recipe, len(r.Files))
	for i := range r.Files {
		rs[i] = r.Files[i].Recipe
	}
	return rs
}

// Config is the model's that the files describe or name; nil where they do neither.
func (r *Recipes) Config() (*budget.Config, error) {
	for _, f := range r.Files {
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
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		if called != "" {
			r.Notes = append(r.Notes, fmt.Sprintf("the model is taken as %s, which %s calls %s; --config FILE takes another",
				called,
				f.Name, recipe.Clipped(f.Model)))
		}
		return c, nil
	}
	return nil, nil
}

// beside is the configuration in the folder that a file names as its model; nil without one.
func (r *Recipes) beside() *budget.Config {
	for _, f := range r.Files {
		at := f.Sibling(f.Name)
		if at == "" {
			continue
		}
		if c, err := ReadConfig(at); err == nil {
			r.Notes = append(r.Notes, "the model is that of "+at)
			return c
		}
	}
	return nil
}

// Model is the one that the files tell of.
func (r *Recipes) Model() (*budget.Config, error) {
	if c := r.beside(); c != nil {
		return c, nil
	}
	c, err := r.Config()
	if c != nil || err != nil {
		return c, err
	}
	for _, f := range r.Files {
		if f.Model != "" {
			return nil, fmt.Errorf("%s: the shape of its model %q isn't known: give --config FILE, --model FILE or --params %s",
				f.Name, recipe.Clipped(f.Model), recipe.SizeInName(f.Model))
		}
	}
	return nil, fmt.Errorf("%s names no model: give --config FILE, --model FILE or --params 8B", r.Files[0].Name)
}

// Apply sets the flags that the files mean and the user hasn't set, and gives their names.
func (r *Recipes) Apply(fl *pflag.FlagSet, s *budget.Setting) ([]string, error) {
	set, unsaid, err := recipe.Apply(fl, r.All(), s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Files[0].Name, err)
	}
	names := make([]string, len(r.Files))
	for i := range r.Files {
		names[i] = r.Files[i].Name
	}
	r.Notes = append(r.Notes, recipe.Contradictions(names, r.All())...)
	for _, s := range unsaid {
		plain := s
		if strings.HasSuffix(s, recipe.Unread) {
			plain = "a file names another" + recipe.Unread
		}
		r.note(s, plain)
	}
	return set, nil
}

// Doubt notes that the model which is given is none that a file names.
func (r *Recipes) Doubt(c *budget.Config) {
	n, err := budget.Count(c)
	if err != nil {
		return
	}
	for _, f := range r.Files {
		if other := f.Other(n.Total); other != "" {
			r.Notes = append(r.Notes, fmt.Sprintf("%s is for %s, %s, and the model that is given has %s parameters: it counts",
				f.Name, recipe.Clipped(f.Model), other, units.Count(int(n.Total))))
		}
	}
}

// Said is what became of the files.
func (r *Recipes) Said() (notes []string) {
	for _, f := range r.Files {
		notes = append(notes, f.Said(f.Name, r.Plain)...)
	}
	if r.Plain {
		return append(notes, r.plain...)
	}
	return append(notes, r.Notes...)
}

// Documents are the files as JSON has them.
func (r *Recipes) Documents() []recipe.Document {
	ds := make([]recipe.Document, 0, len(r.Files))
	for _, f := range r.Files {
		ds = append(ds, f.Document(f.Name, r.Plain))
	}
	return ds
}
