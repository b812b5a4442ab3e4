package record

import (
	"os/exec"
	"strings"
	"testing"
)

// TestRecipes checks that every recipe records or labels, and that its Python
// compiles where an interpreter is at hand.
func TestRecipes(t *testing.T) {
	python, err := exec.LookPath("python3")
	for _, r := range Recipes {
		if !strings.Contains(r.Code, "_record_memory_history") && r.Name != "labels" {
			t.Errorf("%s: doesn't switch recording on", r.Name)
		}
		if found, ok := Find(r.Name); !ok || found.Code != r.Code {
			t.Errorf("Find(%q) gives another recipe", r.Name)
		}
		if err != nil {
			continue
		}
		cmd := exec.Command(python, "-c", "import sys; compile(sys.stdin.read(), 'recipe', 'exec')")
		cmd.Stdin = strings.NewReader(r.Code)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", r.Name, err, out)
		}
	}
	if _, ok := Find("dance"); ok {
		t.Error(`Find("dance") finds something`)
	}
}
