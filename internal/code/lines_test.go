package code

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/report"
)

// TestSource: lines of code come from the folder that is named, and from nowhere else.
func TestSource(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("src/run/train.py", "one\n\ttwo\nthree\x1b[31m\n")
	write("secret.py", "secret\n")
	if err := os.Symlink("../secret.py", filepath.Join(dir, "src", "link.py")); err != nil {
		t.Fatal(err)
	}
	lines, err := Lines(filepath.Join(dir, "src"))
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"/home/me/run/train.py": "    two", `C:\me\run\train.py`: "    two", "run/train.py": "    two",
		"/home/me/other.py": "", "../secret.py": "", "/x/link.py": "", filepath.Join(dir, "secret.py"): "", "/etc/passwd": "",
	} {
		line, got := 2, ""
		if strings.Contains(file, "secret") || strings.Contains(file, "link") {
			line = 1
		}
		if found := lines(&report.Place{File: file, Line: &line}, 0); len(found) == 1 {
			got = found[0].Text
		}
		if got != want {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
	line := 1
	own, err := Lines("")
	if err != nil || own(&report.Place{File: filepath.Join(dir, "secret.py"), Line: &line}, 0) != nil {
		t.Error("a file outside of the working directory was read")
	}
	if _, err := Lines(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("no error for a folder that isn't there")
	}
}
