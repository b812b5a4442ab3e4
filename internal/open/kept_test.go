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
		{"server_sessions", "main().server.sessions", false, "server_sessions.py", 24, 29},
		{"cached_method", "main.Teacher.targets.lru_cache", false, "cached_method.py", 13, 9},
		{"failed_batches", "main.Report.failures[*][*].__traceback__ of decode().x", false, "failed_batches.py", 20, 8},
		{"feature_hooks", "main().recorder.features['2']", false, "feature_hooks.py", 28, 14},
		{"lazy_sample", "main().index[*].embedding", false, "lazy_sample.py", 16, 11},
		{"metric_sum", "validate().metric.total", false, "metric_sum.py", 31, 11},
		{"notebook_out", "main.Out", false, "<ipython-input-1-95b56b49a51b>", 5, 19},
	} {
		t.Run(x.run, func(t *testing.T) {
			leak := largestLeak(t, "../../testdata/runs/kept_at_exit/"+x.run)
			if leak == nil || len(leak.Holders) == 0 || leak.File == nil {
				t.Fatalf("%+v", leak)
			}
			h := &leak.Holders[0]
			if h.Path != x.holder || h.Cycle != x.cycle || path.Base(*leak.File) != x.file || *leak.Line != x.line {
				t.Errorf("%s, cycle %v, at %s:%d", h.Path, h.Cycle, *leak.File, *leak.Line)
			}
			if leak.StoredLine == nil || *leak.StoredLine != x.stored || path.Base(*leak.StoredFile) != x.run+".py" {
				t.Errorf("stored at %v, want line %d", leak.StoredLine, x.stored)
			}
		})
	}
}

// TestKeptWithoutStacks: the same without stacks, where no steps were recognised; a window of the newest is none.
func TestKeptWithoutStacks(t *testing.T) {
	for _, x := range []struct{ run, holder string }{
		{"own_of_thread", "main.local.seen"},
		{"hook_handles", "main().model.0._forward_hooks[*].reference"},
		{"window", ""},
	} {
		leak := largestLeak(t, "../../testdata/runs/kept_without_stacks/"+x.run)
		if leak == nil || len(leak.Holders) == 0 {
			if x.holder != "" {
				t.Errorf("%s: %+v", x.run, leak)
			}
		} else if leak.Holders[0].Path != x.holder {
			t.Errorf("%s: %s", x.run, leak.Holders[0].Path)
		}
	}
}

// largestLeak is that of a run's folder, nil without any.
func largestLeak(t *testing.T, dir string) (leak *report.Leak) {
	t.Helper()
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
	for i := range doc.Devices[0].Leaks {
		if l := &doc.Devices[0].Leaks[i]; l.Defect && (leak == nil || l.TotalBytes > leak.TotalBytes) {
			leak = l
		}
	}
	return leak
}
