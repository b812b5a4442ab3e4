package diagnose

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/testing/corpus"
	"github.com/vramscope/vramscope/snapshot"
)

// TestStoringLines names the line that the labels of the recordings name, or none.
func TestStoringLines(t *testing.T) {
	runs, _ := filepath.Glob("../testdata/recordings/*/run.json")
	runs = append(runs, corpus.Glob(t, "labelled/*/run.json")...)
	named, unsure := 0, 0
	for _, path := range runs {
		dir := filepath.Dir(path)
		var run struct {
			Defects []struct {
				Kind    string
				Culprit struct {
					File string
					Line int
				}
			}
		}
		text, err := os.ReadFile(path)
		if err != nil || json.Unmarshal(text, &run) != nil {
			t.Fatal(path, err)
		}
		if len(run.Defects) != 1 || run.Defects[0].Culprit.File == "" {
			continue
		}
		want := run.Defects[0].Culprit
		for _, variant := range []string{"all", "python"} {
			file := filepath.Join(dir, "snapshot_"+variant+".pickle.gz")
			s, err := snapshot.Open(file, snapshot.Options{})
			if err != nil {
				continue
			}
			code := func(name string) (string, bool) {
				text, err := os.ReadFile(filepath.Join(dir, "script_"+filepath.Base(name)))
				return string(text), err == nil
			}
			doc, err := Run([]Source{{Path: file, Kind: "snapshot", Snapshot: s}}, evidence.New(), Options{Code: code})
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range doc.Devices {
				for _, c := range d.Changes {
					if l := d.Findings[c.Finding].Leak; l != nil && l.StoredLine != nil && *c.FixID == "leak=fixed" && *c.At.Line != *l.StoredLine {
						t.Errorf("%s %s: %s is shown at line %d, stored at %d", filepath.Base(dir), variant, c.Text, *c.At.Line, *l.StoredLine)
					}
				}
				for _, l := range d.Leaks {
					switch {
					case !l.Defect:
					case l.StoredLine == nil:
						unsure++
					case filepath.Base(*l.StoredFile) == want.File && max(*l.StoredLine-want.Line, want.Line-*l.StoredLine) <= 2: // a decorator
						named++
					default:
						t.Errorf("%s %s: stored at %s:%d: %s, want line %d", filepath.Base(dir), variant, *l.StoredFile, *l.StoredLine, *l.StoredCode, want.Line)
					}
				}
			}
		}
	}
	if named < 3 || unsure*8 > named {
		t.Errorf("%d named, %d unsure", named, unsure)
	}
}
