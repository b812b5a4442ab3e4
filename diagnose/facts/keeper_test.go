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

// TestContainerOf: elements of one container count, attributes of one object don't.
func TestContainerOf(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{"main.q.queue[*]['images']", "main.q.queue[*]['labels']", "main.q.queue"},
		{"main.q.queue", "main.q.queue[*]['labels']", "main.q.queue"},
		{"main.log[*][*].x", "main.log[*].y", "main.log"},
		{"main.log[*]", "main.logs[*]", ""},
		{"main.log['a'][*]", "main.log['b'][*]", ""},
		{"main.trainer.losses[*]", "main.trainer.outputs[*]", ""},
		{"main.log", "main.log", ""},
		{"main.log['a']", "main.log[*]", ""},
		{"main.log['a']", "main.log[*].y", ""},
	} {
		if got, back := facts.ContainerOf(c.a, c.b), facts.ContainerOf(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("%s, %s: %q and %q, want %q", c.a, c.b, got, back, c.want)
		}
	}
}
