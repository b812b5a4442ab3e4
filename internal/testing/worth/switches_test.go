package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSwitches builds a program of two heuristics with and without its switches: the copies
// are as many lines, and a heuristic that is off does what its comment says.
func TestSwitches(t *testing.T) {
	source := `// Package guess guesses.
package guess

// Likely says so.
func Likely(n int) bool { return n > 3 }

type list struct{ kept []int }

// keep keeps what is likely.
func (l *list) keep(n int) {
	if Likely(n) {
		l.kept = append(l.kept, n)
	}
}

// plain has no price.
func plain() {}
`
	folder := t.TempDir()
	name := filepath.Join(folder, "guess.go")
	if err := os.WriteFile(name, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	lists(t, folder, "guess.Likely\tfalse\nguess.keep@3\t{ l.kept = []int{}; return }\n")
	found, err := heuristics(folder)
	if err != nil || len(found) != 2 || found[0].id != "guess.Likely" || found[1].id != "guess.keep@3" {
		t.Fatalf("%+v, %v", found, err)
	}
	sources, ids, err := switched(found)
	if err != nil {
		t.Fatal(err)
	}
	got := sources[name]
	if strings.Count(got, "\n") != strings.Count(source, "\n") {
		t.Error("lines have moved")
	}
	for _, want := range []string{"bool { if off.At(0) { return false }; return n > 3 }", "{ if off.At(1) { l.kept = []int{}; return };\n", `; import "`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if !strings.Contains(ids, `"guess.Likely",`) || !strings.Contains(ids, `"guess.keep@3",`) {
		t.Error(ids)
	}
}

// lists writes the table of switches below a folder.
func lists(t *testing.T, folder, rows string) {
	t.Helper()
	name := filepath.Join(folder, filepath.FromSlash(table))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte("helper\toff\n"+rows), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestBadSwitches: a row that doesn't say what a function returns, or names none, is no switch.
func TestBadSwitches(t *testing.T) {
	for name, c := range map[string]struct{ source, row string }{
		"nothing to return":  {"package p\n\nfunc f() bool { return true }\n", "p.f\t\n"},
		"something too much": {"package p\n\nfunc f() {}\n", "p.f\tfalse\n"},
		"no Go":              {"package p\n\nfunc {\n", "p.f\t\n"},
		"no function":        {"package p\n\nfunc g() {}\n", "p.f\t\n"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			lists(t, folder, c.row)
			if err := os.WriteFile(filepath.Join(folder, "p.go"), []byte(c.source), 0o644); err != nil {
				t.Fatal(err)
			}
			if found, err := heuristics(folder); err == nil {
				t.Errorf("%+v", found)
			}
		})
	}
	twice := t.TempDir()
	lists(t, twice, "p.f\t\n")
	for _, of := range []string{"a", "b"} {
		if err := os.MkdirAll(filepath.Join(twice, of), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(twice, of, "p.go"), []byte("package p\n\nfunc f() {}\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := heuristics(twice); err == nil {
		t.Errorf("two of one name: %+v", found)
	}
}

// TestOverlayBuilds compiles the classification with all switches in place.
func TestOverlayBuilds(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles packages")
	}
	overlay, err := writeOverlay("../../../classify", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	vet := exec.Command("go", "build", "-overlay", overlay, "./classify/...")
	vet.Dir = "../../.."
	if out, err := vet.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestNothingWithoutCorpus: without the labelled recordings nothing is measured, and no
// table is written.
func TestNothingWithoutCorpus(t *testing.T) {
	t.Chdir("../../..")
	before, err := os.ReadFile("classify/testdata/worth.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"", t.TempDir(), "/nowhere"} {
		if err := measure(folder, ""); err == nil {
			t.Errorf("%q: measured", folder)
		}
	}
	if after, err := os.ReadFile("classify/testdata/worth.tsv"); err != nil || string(after) != string(before) {
		t.Errorf("the table has changed: %v", err)
	}
}
