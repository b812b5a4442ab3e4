package open

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/budget/recipe"
	"github.com/vramscope/vramscope/compare"
)

// Theory is the model that the run is compared with where no flags tell a setting: the given
// one, or what is among the run's files, with what recipes among them say; nil without one.
func (r *Run) Theory(given *budget.Config, redact bool) *compare.Theory {
	s := budget.Setting{LastLogit: true}
	fl := pflag.NewFlagSet("setting", pflag.ContinueOnError)
	recipe.SettingFlags(fl, &s)
	return r.TheoryBeside(fl, &s, given, redact)
}

// TheoryBeside is the same beside flags of a setting.
func (r *Run) TheoryBeside(fl *pflag.FlagSet, s *budget.Setting, given *budget.Config, redact bool) *compare.Theory {
	t := &compare.Theory{Given: map[string]bool{}, Config: given}
	fl.Visit(func(flag *pflag.Flag) { t.Given[flag.Name] = true })
	if t.Config == nil {
		t.Config = r.Config()
	}
	var files Recipes
	names, rs := r.Recipes()
	for i := range rs {
		if of := otherModel(rs[i], t.Config); of != "" {
			r.noteRecipe(rs[i], "not used: it is for "+of)
			continue
		}
		files.Files = append(files.Files, RecipeFile{Name: names[i], Recipe: rs[i]})
	}
	rs = files.All()
	if t.Config == nil && len(rs) > 0 {
		t.Config, _ = files.Config() // one that can't be a model's describes none
		r.describes(rs, t.Config)
	}
	if t.Config == nil {
		return nil
	}
	if len(rs) > 0 {
		files.Plain = redact
		files.told(fl, s, t)
	}
	t.Setting = *s
	return t
}

// otherModel is the published model that a recipe names, where it isn't the configuration's.
func otherModel(x *recipe.Recipe, c *budget.Config) string {
	one := Recipes{Files: []RecipeFile{{Recipe: x}}}
	_, called := x.Config()
	named, err := one.Config()
	if c == nil || called == "" || named == nil || err != nil {
		return ""
	}
	a, err := budget.Count(c)
	b, other := budget.Count(named)
	if err != nil || other != nil || 20*max(a.Total-b.Total, b.Total-a.Total) < b.Total { // vocabularies differ a little
		return ""
	}
	return called
}

func (r *Run) noteRecipe(of *recipe.Recipe, note string) {
	for _, x := range r.recipes {
		if x.Recipe == of {
			s := &r.Sources[x.source]
			s.Notes = append(s.Notes, note)
		}
	}
}

// describes notes which recipe the model is of, or that none tells one.
func (r *Run) describes(rs []*recipe.Recipe, c *budget.Config) {
	for _, x := range r.recipes {
		s := &r.Sources[x.source]
		if !slices.Contains(rs, x.Recipe) {
			continue
		}
		if c == nil {
			s.Notes = append(s.Notes, "not compared: which model it is for no file tells; --config FILE does")
			continue
		}
		if fields, _ := x.Recipe.Config(); fields != nil {
			s.Config = c
			return
		}
	}
}

// told takes over what recipes among the inputs say, as far as the recording doesn't.
func (r *Recipes) told(fl *pflag.FlagSet, s *budget.Setting, t *compare.Theory) {
	before := *s
	alone := &compare.Theory{Config: t.Config, Setting: before, Given: maps.Clone(t.Given)}
	set, err := r.Apply(fl, s)
	if n := t.Config.Positions(); n > 0 && s.Sequence > n && !fl.Changed("seq") { // what is longer nobody said
		s.Sequence = n
	}
	if err == nil {
		_, err = budget.Compute(t.Config, *s)
	}
	if err != nil { // it was right for another program
		*s = before
		t.Told = append(t.Told, "the recipe isn't used: "+OneLine(err))
		return
	}
	if slices.Contains(set, "context") { // the longest that is served isn't what came
		s.Context = before.Context
	}
	t.Claimed, t.Unasked = map[string]bool{}, map[string]bool{}
	for _, name := range set {
		t.Claimed[name] = true
	}
	for _, x := range r.All() {
		for _, name := range x.Unasked {
			t.Unasked[name] = true
		}
	}
	t.Told = append(t.Told, r.Said()...)
	t.Alone, t.By = alone, "a recipe"
	if !r.Plain {
		var names []string
		for _, f := range r.Files {
			names = append(names, path.Base(f.Name))
		}
		t.By = strings.Join(names, " and ")
	}
}
