package facts_test

import (
	"testing"

	"github.com/vramscope/vramscope/diagnose/facts"
)

// TestCommonPath: whole names, indices and keys are compared, whatever a key in quotes holds.
func TestCommonPath(t *testing.T) {
	for want, paths := range map[string][]string{
		"fit().history":     {"fit().history[*][*]['0.weight']", "fit().history[*][*]['1.bias']", "fit().history[*]"},
		"main.best":         {"main.best['layer.0.weight']", "main.best['layer.1.weight']"},
		"main.model":        {"main.model.a", "main.model.b"},
		"main.model.w":      {"main.model.w", "main.model_ema.w"},
		"main().x":          {"main().x", "other().y"},
		"fit().copy['a[0]'": {"fit().copy['a[0]'"},
		"run().a":           {"run().a", "run().b"},
	} {
		if got := facts.CommonPath(paths); got != want {
			t.Errorf("%v: %q, want %q", paths, got, want)
		}
	}
}
