package diagnose

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/testing/ring"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
)

// overflowed reads a recording of testdata of which the first part is lost.
func overflowed(t *testing.T, file string, part float64) *report.Document {
	t.Helper()
	s, err := snapshot.Open(file, snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ring.Overflow(s, part)
	doc, err := Run([]Source{{Path: file, Kind: "snapshot", Snapshot: s}}, evidence.New(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// warnings of a report, but for those of the recording itself.
func warnings(doc *report.Document) map[string]string {
	out := map[string]string{}
	for _, d := range doc.Devices {
		for _, f := range d.Findings {
			if f.Severity != report.Info && !strings.HasPrefix(f.ID, "recording_") {
				out[f.ID] = f.Title
			}
		}
	}
	return out
}

// TestOverflowInventsNothing: of a program with which nothing is wrong, the last
// part of a recording shows nothing either, wherever it begins.
func TestOverflowInventsNothing(t *testing.T) {
	files, err := filepath.Glob("../testdata/*/*.pickle.gz")
	more, _ := filepath.Glob("../testdata/recordings/*/*.pickle.gz")
	if files = append(files, more...); err != nil || len(files) < 60 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			if len(warnings(overflowed(t, file, 0))) > 0 || strings.Contains(file, "forward_cut") { // of its only pass a part would be left
				return
			}
			for _, part := range []float64{0.3, 0.45, 0.6, 0.75, 0.9} {
				for _, title := range warnings(overflowed(t, file, part)) {
					t.Errorf("without the first %.0f %%: %s", 100*part, title)
				}
			}
		})
	}
}

// TestOverflowKeepsLeaks: what the lost steps left behind is there, and counts.
func TestOverflowKeepsLeaks(t *testing.T) {
	file := "../testdata/recordings/growing_list__step_cache/snapshot_python.pickle.gz"
	leak := func(part float64) report.Leak {
		leaks := overflowed(t, file, part).Devices[0].Leaks
		i := slices.IndexFunc(leaks, func(l report.Leak) bool { return l.Kind == classify.GrowingList })
		if i < 0 {
			t.Fatalf("without the first %.0f %%: none", 100*part)
		}
		return leaks[i]
	}
	whole := leak(0)
	for _, part := range []float64{0.25, 0.5, 0.75} {
		l := leak(part)
		if *l.Line != *whole.Line || l.Suspected || l.TotalBytes < whole.TotalBytes*9/10 || l.TotalBytes > whole.TotalBytes {
			t.Errorf("without the first %.0f %%: line %d, %s, suspected %t; line %d and %s in all", 100*part, *l.Line, units.Bytes(l.TotalBytes), l.Suspected, *whole.Line, units.Bytes(whole.TotalBytes))
		}
	}
}

// TestGraphsOfLostPasses: graphs that no backward pass frees are named, also where
// the passes that made them are lost.
func TestGraphsOfLostPasses(t *testing.T) {
	d := overflowed(t, "../testdata/scenarios/eval_first__python.pickle.gz", 0.5).Devices[0]
	f := finding(&d, classify.RetainedGraph)
	if f == nil || !strings.Contains(f.Title, "before the recording") || f.SavesBytes == nil || *f.SavesBytes < 500<<20 {
		t.Errorf("%+v", f)
	}
}

// TestOverflowKeepsGraphs: the graphs of lost passes are activations, as their
// stacks show.
func TestOverflowKeepsGraphs(t *testing.T) {
	d := overflowed(t, "../testdata/scenarios/eval_losses__python.pickle.gz", 0.9).Devices[0]
	if got, all := d.AtPeak.Categories["activations"], d.AtPeak.AllocatedBytes; 2*got < all {
		t.Errorf("%s of %s are activations: %v", units.Bytes(got), units.Bytes(all), d.AtPeak.Categories)
	}
}
