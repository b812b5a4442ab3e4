package open

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/budget/recipe"
	"github.com/vramscope/vramscope/evidence/tracker"
	"github.com/vramscope/vramscope/internal/sniff"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/store"
)

// KindRecipe is a framework's own file, by which a run was made.
const KindRecipe = "recipe"

// Recipe reads a framework's file; "-" is standard input.
func Recipe(name string, stdin io.Reader) (*recipe.Recipe, error) {
	if name == "-" {
		return recipeOf("standard input", "", stdin)
	}
	f := (&Options{}).files()
	defer f.close()
	file, _ := recipe.Place(name)
	text, err := f.text(file)
	if err != nil {
		return nil, err
	}
	defer text.Close()
	return recipeOf(store.Show(name), name, text)
}

func recipeOf(shown, name string, text io.Reader) (*recipe.Recipe, error) {
	r, err := recipe.Read(strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst"), text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", shown, err)
	}
	return r, nil
}

// recipeIn takes a file in as a recipe, if it is called like one and is one.
func (r *Run) recipeIn(in *snapshot.Input, head []byte) bool {
	if !recipe.Candidate(in.Name) || sniff.IsBinary(head) || sniff.IsRunRecord(head) || sniff.AccessoryOf(head) == sniff.Config ||
		tracker.Recognise(in.Name, head) != nil { // what a tracker kept of the settings stands with the run
		return false
	}
	c, total, err := in.Content()
	if err != nil || total > maxRecipe {
		return false
	}
	defer c.Close()
	x, err := recipe.Read(in.Name, c)
	if err != nil {
		return false
	}
	r.recipes = append(r.recipes, found{source: len(r.Sources), Recipe: x})
	return true
}

// maxRecipe is the largest file that is looked at as a recipe.
const maxRecipe = 1 << 20

// found is a recipe among the run's files.
type found struct {
	*recipe.Recipe
	source int
}

// Recipes are those of the run's files, of one framework: what Transformers, PEFT, Accelerate and
// DeepSpeed are told lies in several, any other framework's is the one of which most was
// used. The others are noted as not used.
func (r *Run) Recipes() (names []string, rs []*recipe.Recipe) {
	best := -1
	for i := range r.recipes {
		if best < 0 || len(r.recipes[i].Fields) > len(r.recipes[best].Fields) {
			best = i
		}
	}
	for i, x := range r.recipes {
		if i != best && !together(x.Format, r.recipes[best].Format) {
			s := &r.Sources[x.source]
			s.Notes = append(s.Notes, "not used: "+r.Sources[r.recipes[best].source].Path+" says more of the run")
			continue
		}
		names, rs = append(names, r.Sources[x.source].Path), append(rs, x.Recipe)
	}
	return names, rs
}

// together says whether one run is told in files of two formats: a trainer's, and those
// of what the trainer is built on.
func together(x, y string) bool {
	trainer := func(f string) bool {
		return slices.Contains([]string{"TrainingArguments", "TRL arguments", "axolotl configuration",
			"LLaMA-Factory configuration", "ms-swift arguments"}, f)
	}
	beside := func(f string) bool {
		return slices.Contains([]string{"accelerate configuration", "DeepSpeed configuration", "PEFT adapter configuration"}, f)
	}
	return x == y && (trainer(x) || beside(x)) || beside(x) && (beside(y) || trainer(y)) || trainer(x) && beside(y)
}
