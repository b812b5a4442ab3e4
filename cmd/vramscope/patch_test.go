package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPatchFlag writes a diff for the statement that stores, with the program's text below --source, and
// none where no line of code may be shown.
func TestPatchFlag(t *testing.T) {
	const kept = "../../testdata/runs/kept_losses/"
	dir := t.TempDir()
	text, err := os.ReadFile(kept + "train.py")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "train.py"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	recordings := []string{kept + "pid4242-0-oom.pickle.gz"}
	patch := filepath.Join(dir, "x.diff")
	var out, stderr bytes.Buffer
	if run([]string{"analyze", recordings[0], "--source", dir, "--patch", patch}, nil, &out, &stderr) != 0 {
		t.Fatal(stderr.String())
	}
	diff, err := os.ReadFile(patch)
	if err != nil || !strings.HasPrefix(string(diff), "--- train.py\n+++ train.py\n@@ -10,7 +10,7 @@\n") ||
		!strings.Contains(string(diff), "\n-        self.losses.append(loss)\n+        self.losses.append(loss.item())\n") {
		t.Errorf("%v: %s", err, diff)
	}
	if !strings.Contains(out.String(), "+        self.losses.append(loss.item())") {
		t.Errorf("the answer doesn't show it: %s", out.String())
	}
	if err := os.Remove(patch); err != nil {
		t.Fatal(err)
	}
	stderr.Reset()
	if run([]string{"analyze", recordings[0], "--redact", "--patch", patch}, nil, &out, &stderr) != 2 || !strings.Contains(stderr.String(), "--redact") {
		t.Error(stderr.String())
	}
	stderr.Reset()
	if run([]string{"analyze", recordings[0], "--source", "../../testdata/said", "--patch", patch}, nil, &out, &stderr) != 0 ||
		!strings.Contains(stderr.String(), "nothing was written") {
		t.Error(stderr.String())
	}
	if _, err := os.Stat(patch); err == nil {
		t.Error("a patch without a change was written")
	}
}
