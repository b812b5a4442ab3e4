package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/budget/recipe"
	"github.com/vramscope/vramscope/internal/open"
)

const recipeHelp = "take the setting from a framework's own `FILE`: torchtune, axolotl, LLaMA-Factory, PEFT, accelerate, " +
	"torchtitan, TrainingArguments, DeepSpeed, Megatron, vLLM or SGLang arguments (repeatable; flags win)"

// applyRecipes sets the flags that the user hasn't, and gives their names.
func applyRecipes(cmd *cobra.Command, r *open.Recipes, s *budget.Setting) (set []string, err error) {
	for _, g := range recipe.Together(r.All()) {
		flag := cmd.Flags().Lookup(g.Name)
		if flag == nil || flag.Changed {
			continue
		}
		if err := flag.Value.Set(g.Value); err != nil {
			return nil, fmt.Errorf("%s: --%s %q: %w", r.Files[0].Name, g.Name, g.Value, err)
		}
		flag.Changed = true
		set = append(set, g.Name)
	}
	if ranks := s.GPUs / max(s.TP*s.PP, 1); ranks < 2 && (slices.Contains(set, "fsdp") || slices.Contains(set,
		"zero") && s.Zero > 0) {
		s.FSDP, s.Zero = "", 0
		if !cmd.Flags().Changed("gpus") {
			r.Notes = append(r.Notes, "how many GPUs share the model no file says: counted unsharded; give --gpus N")
		}
	}
	if len(r.Files) > 0 && !cmd.Flags().Changed("seq") && !cmd.Flags().Changed("context") {
		r.Notes = append(r.Notes, "how long sequences are no file says: give --seq N")
	}
	return set, nil
}
