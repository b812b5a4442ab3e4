package open

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/budget/recipe"
	"github.com/vramscope/vramscope/internal/units"
)

// Program makes of a model what the program of the files does: the head of its own class, and weights in the type that it
// loads them in, where the model's own file tells that and typed is false, as nobody has said one.
func (r *Recipes) Program(c *budget.Config, fl *pflag.FlagSet, s *budget.Setting, typed bool) *budget.Config {
	if c.Unsequenced() {
		isLength := func(note string) bool { return note == recipe.NoLength }
		r.Notes, r.plain = slices.DeleteFunc(r.Notes, isLength), slices.DeleteFunc(r.plain, isLength)
	}
	for _, f := range r.Files {
		if f.Untyped && !typed {
			r.loaded(c, fl, s)
		}
		if f.Head == "" || strings.HasSuffix(c.Architecture(), "For"+f.Head) && f.Labels == 0 {
			continue
		}
		d := c.Headed(f.Head, f.Labels)
		if _, err := budget.Count(d); err != nil {
			const kept = " trains a head for %s, which isn't counted: the configuration's%s is"
			r.note(f.Name+fmt.Sprintf(kept, f.Head, " "+recipe.Clipped(c.Architecture())), "a file"+fmt.Sprintf(kept, f.Head, ""))
			continue
		}
		if !strings.HasSuffix(c.Architecture(), "For"+f.Head) {
			r.note(fmt.Sprintf("the head is %s's, as %s trains it", recipe.Clipped(d.Architecture()), f.Name),
				"the head is one for "+f.Head+", as a file trains it")
		}
		c = d
	}
	return c
}

// Packed lays a batch that a file packs into one row, with a mask, unless attention has a kernel for several sequences. Positions
// start anew in each of them, so that a row may have more tokens than a model has learned positions: then they are counted apart.
func (r *Recipes) Packed(c *budget.Config, fl *pflag.FlagSet, s *budget.Setting) {
	kernel := s.Attention == "flash" || s.Attention == "flex"
	if kernel || fl.Changed("padding") || !slices.ContainsFunc(r.Files, func(f RecipeFile) bool { return f.OneRow }) {
		return
	}
	batch, tokens := max(s.Batch, 1), s.Sequence
	if tokens < 1 || batch > longestRow/tokens {
		return
	}
	said := fmt.Sprintf("a batch of %s of %s tokens lies packed in one row", units.Plural(int(batch), "sequence"),
		units.Count(int(tokens)))
	if n := c.Positions(); n > 0 && batch*tokens > n {
		said += ", whose mask isn't counted"
		r.note(said, said)
		return
	}
	said += " under a mask: batches and lengths here are those of rows"
	r.note(said, said)
	for name, n := range map[string]int64{"batch": 1, "seq": batch * tokens} {
		_ = fl.Set(name, strconv.FormatInt(n, 10)) // whole numbers are taken
	}
	_ = fl.Set("padding", "true")
}

// longestRow is how many tokens a row has at most; batches that make more are refused for their size as they are.
const longestRow = 1 << 32

// loaded takes the type that Transformers 5 loads weights in where a program names none: the configuration's. What is sharded
// is float32 where autocast computes, as Accelerate has it, and ZeRO has a rule of its own.
func (r *Recipes) loaded(c *budget.Config, fl *pflag.FlagSet, s *budget.Setting) {
	width := c.Width()
	mixed := strings.HasSuffix(s.Precision, "-mixed") && fl.Changed("precision")
	switch {
	case s.FSDP != "" || s.Zero > 0 || c.IsPacked() || fl.Changed("precision") && !mixed:
	case slices.Contains([]string{"", "fp32"}, width):
		if !mixed {
			s.Precision = "fp32"
			const untyped = "weights are float32, as neither a field nor the configuration names a type"
			r.note(untyped, untyped)
		}
	case mixed && s.Precision != width+"-mixed":
	default:
		s.Precision = width
		before := map[bool]string{true: width + "-mixed", false: "fp32"}[mixed]
		typed := fmt.Sprintf("weights are loaded in %s, as the configuration has them and Transformers 5 takes "+
			"them; before, they were float32: --precision %s", width, before)
		r.note(typed, typed)
	}
}
