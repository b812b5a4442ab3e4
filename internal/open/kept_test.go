package open

import (
	"path"
	"testing"

	"github.com/vramscope/vramscope/report"
)

// TestKeptAtExit: programs that `vramscope run` recorded, whose dump is of their end, when their functions have returned.
// The leak is found, and the variable that held it while they ran.
func TestKeptAtExit(t *testing.T) {
	for _, x := range []struct {
		run, holder string
		cycle       bool
		file        string
		line        int
	}{
		{"eval_dict", "evaluate().scores", false, "eval_dict.py", 11},
		{"class_attribute", "main.Tracker.history", false, "class_attribute.py", 28},
		{"keyword_default", "main.log_batch.seen", false, "keyword_default.py", 25},
		{"kept_exceptions", "TooLong.__traceback__ of translate().hidden", true, "kept_exceptions.py", 10},
		{"ctx_attribute", "Square.forward().ctx.x", true, "ctx_attribute.py", 8},
		{"sessions", "main().server.sessions", false, "sessions.py", 14},
	} {
		t.Run(x.run, func(t *testing.T) {
			doc := documentOf(t, Options{}, "../../testdata/runs/kept_at_exit/"+x.run)
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
		})
	}
}
