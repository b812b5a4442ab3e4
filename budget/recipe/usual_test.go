package recipe_test

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/budget/recipe"
)

// TestUsual: a framework that is named brings what it always does, never what a user said otherwise, nor checkpointing, which
// its files have on or off.
func TestUsual(t *testing.T) {
	for flags, want := range map[string]string{
		"--framework torchtune":                               "--optimizer adamw-fused --loss chunked",
		"--framework torchtune --gpus 8 --lora 16":            "--optimizer adamw-fused --loss chunked --fsdp full --lora-dtype model",
		"--framework torchtune --optimizer sgd --zero 3":      "--loss chunked",
		"--framework torchtitan --gpus 8 --tp 8":              "--precision bf16-mixed --optimizer adamw-fused",
		"--framework litgpt --gpus 4 --checkpointing none":    "--loss cross-entropy --fsdp full",
		"--framework litgpt --gpus 4":                         "--loss cross-entropy --fsdp full --checkpointing full",
		"--framework torchtune --inference":                   "",
		"--framework transformers --gpus 8":                   "",
		"--optimizer-in-backward --gpus 8":                    "",
		"--framework torchtitan --fsdp none --precision fp32": "--optimizer adamw-fused",
	} {
		var s budget.Setting
		fl := pflag.NewFlagSet("budget", pflag.ContinueOnError)
		recipe.SettingFlags(fl, &s)
		if err := fl.Parse(strings.Fields(flags)); err != nil {
			t.Fatal(err)
		}
		if got := recipe.Usual(fl, &s); got != want {
			t.Errorf("%s brings %q, not %q", flags, got, want)
		}
	}
}
