package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRecipesAsRun: what the budget says of training scripts, of their files alone, is what the frameworks' own code takes by
// `vramscope run --simulate "H100 80GB"` with PyTorch 2.15, Transformers 5.24, TRL 1.16, PEFT 0.21, Accelerate 1.15 and DeepSpeed
// 0.19, whose Adams stood in as PyTorch's. All but the last were written down before the budget was asked.
func TestRecipesAsRun(t *testing.T) {
	const within, reservedWithin = 0.03, 0.12
	text, err := os.ReadFile("testdata/recipes/rows.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var row struct {
			Files, Flags   []string
			Peak, Reserved float64
			Config         json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		t.Run(row.Files[0], func(t *testing.T) {
			config := filepath.Join(t.TempDir(), "config.json")
			if err := os.WriteFile(config, row.Config, 0o600); err != nil {
				t.Fatal(err)
			}
			args := append([]string{"--config", config, "--format", "json", "--no-ladder", "--gpu", "H100 80GB"}, row.Flags...)
			for _, f := range row.Files {
				args = append(args, "--recipe", "testdata/recipes/"+f)
			}
			out, errs, code := budgetRun(t, args...)
			var d struct {
				Peak     float64 `json:"peak_bytes"`
				Reserved float64 `json:"reserved_bytes"`
			}
			if err := json.Unmarshal([]byte(out), &d); err != nil || code != exitFine {
				t.Fatalf("%v: %s", err, errs)
			}
			peak, reserved := d.Peak/row.Peak-1, d.Reserved/row.Reserved-1
			t.Logf("peak %+.2f %%, reserved %+.2f %%", 100*peak, 100*reserved)
			if math.Abs(peak) > within || math.Abs(reserved) > reservedWithin {
				t.Errorf("peak %+.2f %%, reserved %+.2f %%", 100*peak, 100*reserved)
			}
		})
	}
}
