package record

import (
	"os/exec"
	"strings"
	"testing"
)

// TestRecipes checks that every recipe records or labels, and that what is
// printed is Python, where an interpreter is at hand.
func TestRecipes(t *testing.T) {
	python, missing := exec.LookPath("python3")
	checkPython := func(name, text string) {
		if missing != nil {
			return
		}
		cmd := exec.Command(python, "-c", "import sys; compile(sys.stdin.read(), 'recipe', 'exec')")
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	for _, r := range Recipes {
		if !strings.Contains(r.Code, "_record_memory_history") && r.Name != "labels" {
			t.Errorf("%s: doesn't switch recording on", r.Name)
		}
		if found, ok := Find(r.Name); !ok || found.Code != r.Code {
			t.Errorf("Find(%q) gives another recipe", r.Name)
		}
		checkPython(r.Name, r.Code) // as reports show it
		checkPython(r.Name+" as printed", Text(r))
	}
	checkPython("all as printed", Text(Recipes...))
	for line := range strings.Lines(advice) {
		if !strings.HasPrefix(line, "# ") {
			t.Errorf("advice isn't a comment: %s", line)
		}
	}
	if _, ok := Find("dance"); ok {
		t.Error(`Find("dance") finds something`)
	}
}
