package diagnose

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/testing/recorder"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
)

// TestOldRecordersAreToldTheirArguments: what PyTorch 2.0 can't run is no advice to
// those who use it.
func TestOldRecordersAreToldTheirArguments(t *testing.T) {
	for _, c := range []struct {
		era  recorder.Era
		want string
	}{
		{recorder.V2_0, "_record_memory_history(True, trace_alloc_max_entries="},
		{recorder.V2_8, "_record_memory_history(max_entries="},
	} {
		run := recorder.Simulate(recorder.Program{Seed: 1, Events: 500}) // without stacks
		data := run.Recording.Dump(recorder.Style{Era: c.era, Protocol: 4})
		s, err := snapshot.Decode(bytes.NewReader(data), snapshot.Options{})
		if err != nil {
			t.Fatal(err)
		}
		doc, err := Run([]Source{{Path: "x", Kind: "snapshot", Snapshot: s}}, evidence.New(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		all := doc.Devices[0].Findings
		i := slices.IndexFunc(all, func(f report.Finding) bool { return f.ID == "recording_without_stacks" })
		if i < 0 || !strings.Contains(all[i].Code, c.want) {
			t.Errorf("era %v: %+v", c.era, all)
		}
	}
}
