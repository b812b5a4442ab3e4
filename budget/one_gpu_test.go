package budget_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/budget/recipe"
)

// TestOneGPU takes programs on one GPU with the flags that a user would give. Their peaks, in requested bytes, were recorded
// by testdata/one_gpu.py with Transformers 5.24, PEFT 0.21.2, TRL 1.16, bitsandbytes 0.50.2, Liger 0.8.5 and galore_torch 1.0.
func TestOneGPU(t *testing.T) { recordedPrograms(t, "testdata/one_gpu.jsonl", 0.01) }

// TestRecipes takes the recipes that torchtune 0.6.1 comes with, and litgpt 0.5.13's scripts, which testdata/torchtune_recipe.py and
// litgpt_script.py recorded with made-up weights and data, and the Trainer's programs of trainer_frozen.py. Behind them are
// axolotl 0.19, LLaMA-Factory 0.9.5, ms-swift 4.6, litgpt 0.5.13 and diffusers 0.42. The flags are what the recipes say.
func TestRecipes(t *testing.T) { recordedPrograms(t, "testdata/recipes.jsonl", 0.03) }

func recordedPrograms(t *testing.T, file string, within float64) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		var row struct {
			Name   string
			Config json.RawMessage
			Flags  string
			Peak   int64
		}
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		t.Run(row.Name, func(t *testing.T) {
			c, err := budget.ReadConfig(bytes.NewReader(row.Config))
			if err != nil {
				t.Fatal(err)
			}
			b, err := budget.Compute(c, settingOf(t, row.Flags))
			if err != nil {
				t.Fatal(err)
			}
			off := float64(b.PeakBytes)/float64(row.Peak) - 1
			t.Logf("%+.2f %%, in %s", 100*off, b.PeakPhase)
			if math.Abs(off) > within {
				t.Errorf("%s: peak %d, recorded %d: %+.2f %%", row.Flags, b.PeakBytes, row.Peak, 100*off)
			}
		})
	}
}

// settingOf is what flags mean to the budget command.
func settingOf(t *testing.T, flags string) (s budget.Setting) {
	t.Helper()
	fl := pflag.NewFlagSet("budget", pflag.ContinueOnError)
	recipe.SettingFlags(fl, &s)
	if err := fl.Parse(strings.Fields(flags)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := recipe.Apply(fl, nil, &s); err != nil {
		t.Fatal(err)
	}
	s.LastLogit = true
	if fl.Changed("context") {
		s.Sequence = 0
	}
	return s
}
