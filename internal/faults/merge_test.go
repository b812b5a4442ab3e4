package faults

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUntrustedParts: nothing outside a part is read, and what is wrong with one is known
// before anything is written.
func TestUntrustedParts(t *testing.T) {
	folder := someRuns(t, usual[:2]...)
	good, bad := t.TempDir(), t.TempDir()
	for i, out := range []string{good, bad} {
		if o := vramscope(t, "batch", filepath.Join(folder, "run"+string(rune('0'+i))), "-o", out, "-q"); o.code != 0 {
			t.Fatal(o.errors)
		}
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("not for you"), 0o600); err != nil {
		t.Fatal(err)
	}
	runs, err := os.ReadDir(filepath.Join(bad, "runs"))
	if err != nil || len(runs) != 1 {
		t.Fatal(err, runs)
	}
	run := filepath.Join(bad, "runs", runs[0].Name())
	link := func(name string) func() error {
		return func() error {
			if err := os.RemoveAll(name); err != nil {
				return err
			}
			return os.Symlink(secret, name)
		}
	}
	truncated := func(name string) func() error { return func() error { return os.Truncate(name, 100) } }
	for name, spoil := range map[string]func() error{
		"a page that is a link":     link(filepath.Join(run, "report.html")),
		"a report that is a link":   link(filepath.Join(run, "report.json")),
		"no run":                    func() error { return os.RemoveAll(run) },
		"no table":                  func() error { return os.Remove(filepath.Join(bad, "runs.parquet")) },
		"a table that is a link":    link(filepath.Join(bad, "runs.parquet")),
		"a table that is cut":       truncated(filepath.Join(bad, "runs.parquet")),
		"no page":                   func() error { return os.Remove(filepath.Join(run, "report.html")) },
		"a report that is cut":      truncated(filepath.Join(run, "report.json")),
		"a report of another form":  func() error { return os.WriteFile(filepath.Join(run, "report.json"), []byte("[]"), 0o644) },
		"an entry that is cut":      truncated(filepath.Join(run, "run.json")),
		"an entry of another name":  func() error { return os.Rename(run, filepath.Join(bad, "runs", "evil")) },
		"an entry that is too long": func() error { return os.Truncate(filepath.Join(run, "run.json"), 2<<20) },
	} {
		t.Run(name, func(t *testing.T) {
			kept := t.TempDir()
			if err := os.CopyFS(kept, os.DirFS(bad)); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				os.RemoveAll(bad)
				if err := os.CopyFS(bad, os.DirFS(kept)); err != nil {
					t.Fatal(err)
				}
			})
			if err := spoil(); err != nil {
				t.Fatal(err)
			}
			out := filepath.Join(t.TempDir(), "out")
			o := vramscope(t, "merge", good, bad, "-o", out)
			oneLine(t, o, bad)
			if strings.Contains(o.errors, "not for you") {
				t.Errorf("said %q", o.errors)
			}
			if found := contentsIfAny(t, out); len(found) > 0 {
				t.Errorf("%d files were written", len(found))
			}
		})
	}
	out := filepath.Join(t.TempDir(), "out")
	if o := vramscope(t, "merge", good, bad, "-o", out, "-q"); o.code != 0 {
		t.Fatal(o.errors)
	}
	want := contents(t, out)
	oneLine(t, vramscope(t, "merge", good, "-o", out, "-q"), "holds 1 run that no part has", "--prune")
	same(t, "refused", contents(t, out), want)
	if o := vramscope(t, "merge", good, "-o", out, "-q", "--prune"); o.code != 0 {
		t.Error(o.errors)
	}
}
