package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// told is what an answer says that more evidence must not take back.
type told struct {
	Verdict struct {
		Severity string
		Device   *int
		Finding  *int
	}
	Devices []struct {
		Findings []struct{ ID string }
		Leaks    []struct {
			Kind   string
			Defect bool
		}
	}
}

// about is the finding that the verdict is about, "" for none.
func (a *told) about() string {
	if a.Verdict.Device == nil || a.Verdict.Finding == nil {
		return ""
	}
	return a.Devices[*a.Verdict.Device].Findings[*a.Verdict.Finding].ID
}

// leaks are the kinds of defects that leak.
func (a *told) leaks() (kinds []string) {
	for _, d := range a.Devices {
		for _, l := range d.Leaks {
			if l.Defect {
				kinds = append(kinds, l.Kind)
			}
		}
	}
	return kinds
}

// TestMoreEvidenceIsNoWorse: a recording's log, labels and holders beside it neither turn its verdict nor take a leak back.
func TestMoreEvidenceIsNoWorse(t *testing.T) {
	runs := map[string][]string{}
	logs, _ := filepath.Glob("../../testdata/recordings/*/log.txt")
	for _, log := range logs {
		dumps, _ := filepath.Glob(filepath.Join(filepath.Dir(log), "snapshot_*.pickle.gz"))
		runs[dumps[0]] = []string{log}
	}
	const run = "../../testdata/runs/kept_losses/"
	dump := run + "pid4242-0-oom"
	runs[dump+".pickle.gz"] = []string{run + "output.log", dump + ".labels.json", dump + ".holders.json"}
	if len(runs) < 10 {
		t.Fatalf("%d runs", len(runs))
	}
	for dump, more := range runs {
		t.Run(strings.TrimPrefix(filepath.Dir(dump), "../../testdata/"), func(t *testing.T) {
			dir := t.TempDir() // where nothing else lies beside it
			given := []string{"analyze", copied(t, dump, dir)}
			var before told
			answer(t, &before, given...)
			for _, evidence := range more {
				given = append(given, copied(t, evidence, dir))
				var after told
				answer(t, &after, given...)
				if after.about() != before.about() || after.Verdict.Severity != before.Verdict.Severity {
					t.Errorf("%s makes the verdict %s about %q, which was %s about %q", filepath.Base(evidence),
						after.Verdict.Severity, after.about(), before.Verdict.Severity, before.about())
				}
				if len(after.leaks()) < len(before.leaks()) {
					t.Errorf("%s leaves %q of the leaks %q", filepath.Base(evidence), after.leaks(), before.leaks())
				}
				before = after
			}
		})
	}
}

// copied is a file's copy in another folder.
func copied(t *testing.T, path, dir string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(dir, filepath.Base(path))
	if err := os.WriteFile(to, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return to
}
