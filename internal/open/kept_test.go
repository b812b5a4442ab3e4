package open

import (
	"os"
	"path"
	"testing"

	"github.com/vramscope/vramscope/diagnose"
	"github.com/vramscope/vramscope/report"
)

// TestKeptAtExit: programs that `vramscope run` recorded, whose dump is of their end, when their functions have returned.
// The leak is found, the variable that held it while they ran, and the statement that stored it there.
func TestKeptAtExit(t *testing.T) {
	for _, x := range []struct {
		run, holder string
		cycle       bool
		file        string
		line        int
		stored      int
	}{
		{"eval_dict", "evaluate().scores", false, "eval_dict.py", 11, 11},
		{"class_attribute", "main.Tracker.history", false, "class_attribute.py", 28, 9},
		{"keyword_default", "main.log_batch.seen", false, "keyword_default.py", 25, 6},
		{"kept_exceptions", "TooLong.__traceback__ of translate().hidden", true, "kept_exceptions.py", 10, 25},
		{"ctx_attribute", "Square.forward().ctx.x", true, "ctx_attribute.py", 8, 10},
		{"sessions", "main().server.sessions", false, "sessions.py", 14, 16},
	} {
		t.Run(x.run, func(t *testing.T) {
			dir := "../../testdata/runs/kept_at_exit/" + x.run
			r, err := Files([]string{dir}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			text := func(file string) (string, bool) {
				text, err := os.ReadFile(path.Join(dir, path.Base(file)))
				return string(text), err == nil
			}
			doc, err := diagnose.Run(r.Sources, r.Evidence, diagnose.Options{Code: text})
			if err != nil {
				t.Fatal(err)
			}
			var leak *report.Leak
			for i := range doc.Devices[0].Leaks {
				if l := &doc.Devices[0].Leaks[i]; l.Defect && (leak == nil || l.TotalBytes > leak.TotalBytes) {
					leak = l
				}
			}
			if leak == nil || len(leak.Holders) == 0 || leak.File == nil {
				t.Fatalf("%+v", leak)
			}
			h := &leak.Holders[0]
			if h.Path != x.holder || h.Cycle != x.cycle || path.Base(*leak.File) != x.file || *leak.Line != x.line {
				t.Errorf("%s, cycle %v, at %s:%d", h.Path, h.Cycle, *leak.File, *leak.Line)
			}
			if leak.StoredLine == nil || *leak.StoredLine != x.stored || path.Base(*leak.StoredFile) != x.file {
				t.Errorf("stored at %v, want line %d", leak.StoredLine, x.stored)
			}
		})
	}
}
