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
		"--framework megatron --tp 2 --gpus 2":                "--optimizer adamw-fused --master-weights --gradient-dtype fp32",
		"--framework megatron --lora 8":                       "",
		"--framework nemo --precision fp32":                   "--optimizer adamw-fused",
		"--framework torchtitan@2024.12 --gpus 8":             "--precision bf16-mixed --optimizer adamw --fsdp full",
		"--framework axolotl@0.12 --gpus 8 --fsdp full":       "--trainer --sync-each-batch",
		"--framework axolotl":                                 "--trainer",
		"--framework trl":                                     "--trainer --drop-outputs --loss chunked",
		"--framework accelerate":                              "--trainer --drop-outputs false",
		"--framework ms-swift --checkpointing none":           "--trainer",
		"--framework unsloth --lora 16":                       "--trainer --checkpointing offload --loss fused --optimizer adamw-8bit",
		"--framework verl --gpus 8":                           "--precision bf16-mixed --fsdp full --fsdp-version 1 --checkpointing full",
		"--framework openrlhf --gpus 8":                       "--zero 3 --master-weights --optimizer adamw-fused --checkpointing full",
		"--zero 2 --gpus 8 --precision bf16":                  "--master-weights",
		"--zero 2 --gpus 8 --lora 16":                         "",
		"--zero 2 --gpus 8 --precision bf16-mixed":            "",
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
