package diagnose_test

import (
	"iter"
	"path/filepath"
	"testing"

	"github.com/vramscope/vramscope/diagnose"
	"github.com/vramscope/vramscope/internal/open"
	"github.com/vramscope/vramscope/report"
)

// answers are those about recordings that ship, by file, of patterns below testdata; none about what can't be judged.
func answers(t *testing.T, patterns ...string) iter.Seq2[string, *report.Document] {
	return func(yield func(string, *report.Document) bool) {
		for _, pattern := range patterns {
			files, err := filepath.Glob("../testdata/" + pattern)
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				run, err := open.Files([]string{file}, open.Options{})
				if err != nil {
					t.Fatal(err)
				}
				doc, err := diagnose.Run(run.Sources, run.Evidence, diagnose.Options{})
				run.Close()
				if err == nil && !yield(file, doc) {
					return
				}
			}
		}
	}
}
