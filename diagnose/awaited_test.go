package diagnose_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/vramscope/vramscope/diagnose"
	"github.com/vramscope/vramscope/diagnose/checks"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/open"
	"github.com/vramscope/vramscope/snapshot"
)

// TestAwaited: where the program's text runs one backward pass of a sum, or of what it makes of all outputs, what waits for that
// is no leak, but wants a pass for each.
func TestAwaited(t *testing.T) {
	for _, x := range []struct{ folder, holder, change string }{
		{"summed_tasks", "main.total", checks.Summed},
		{"gathered_outputs", "main.qs", checks.Gathered},
	} {
		for _, shown := range []bool{true, false} {
			dir := "../testdata/runs/oom/" + x.folder + "/"
			files, _ := filepath.Glob(dir + "*.pickle.gz")
			s, err := snapshot.Open(files[0], snapshot.Options{})
			if err != nil {
				t.Fatal(err)
			}
			code := func(name string) (string, bool) {
				text, err := os.ReadFile(dir + filepath.Base(name))
				return string(text), shown && err == nil
			}
			doc, err := diagnose.Run([]diagnose.Source{{Path: files[0], Kind: "snapshot", Snapshot: s,
				Holders: open.HoldersBeside(files[0])}}, evidence.New(), diagnose.Options{Code: code})
			if err != nil {
				t.Fatal(err)
			}
			c, first := doc.Verdict.Causes[0], doc.Devices[0].Changes[0]
			awaited := c.Leak == nil && *c.FixID == x.change && *c.Holder == x.holder && *first.FixID == x.change
			if awaited != shown {
				t.Errorf("%s with its text %v: %+v, first %s", x.folder, shown, c, *first.FixID)
			}
		}
	}
}

// TestRollouts: what a rollout without gradients gathers, and is trained on afterwards, is no leak, with variables or without.
func TestRollouts(t *testing.T) {
	files, _ := filepath.Glob("../testdata/runs/healthy/collected_rollouts/*.pickle.gz")
	for _, holders := range []bool{true, false} {
		s, err := snapshot.Open(files[0], snapshot.Options{})
		if err != nil {
			t.Fatal(err)
		}
		x := diagnose.Source{Path: files[0], Kind: "snapshot", Snapshot: s}
		if holders {
			x.Holders = open.HoldersBeside(files[0])
		}
		doc, err := diagnose.Run([]diagnose.Source{x}, evidence.New(), diagnose.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range doc.Devices[0].Leaks {
			if l.Defect {
				t.Errorf("variables %v: %s of %d bytes at line %d", holders, l.Kind, l.TotalBytes, *l.Line)
			}
		}
	}
}
