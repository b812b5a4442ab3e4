package replay

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/corpus"
	"github.com/vramscope/vramscope/replay/allocator"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

const shipped = "../testdata/recordings"

// runs are the folders of recordings that are there.
func runs(t testing.TB) []string {
	t.Helper()
	dirs, _ := filepath.Glob(filepath.Join(shipped, "*"))
	if more := corpus.Glob(t, "labelled/*"); len(more) > 0 {
		dirs = more // the same, and others
	}
	var out []string
	for _, d := range dirs {
		if _, err := os.Stat(filepath.Join(d, "run.json")); err == nil {
			out = append(out, d)
		}
	}
	if len(out) == 0 {
		t.Fatal("no recordings")
	}
	return out
}

func open(t testing.TB, file string) *snapshot.Snapshot {
	t.Helper()
	s, err := snapshot.Open(file, snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func load(t testing.TB, file string) *Program {
	t.Helper()
	s := open(t, file)
	p, err := NewProgram(timeline.New(s, &s.Devices[0]))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// outcome is what really happened to a program under other settings.
type outcome struct {
	Conf          string `json:"conf"`
	Capacity      any    `json:"capacity_gib"`
	PeakAllocated int64  `json:"peak_allocated"`
	PeakReserved  int64  `json:"peak_reserved"`
	FinalReserved int64  `json:"final_reserved"`
	Segments      int    `json:"segments"`
	Allocations   int    `json:"allocations"`
	Retries       int    `json:"alloc_retries"`
	DeviceTotal   int64  `json:"device_total"`
	OOM           bool   `json:"oom"`
	Ordinal       *int   `json:"oom_ordinal"`
	StatsTakenAt  string `json:"stats_taken_at"`
	Events        []struct {
		Reserved   int64 `json:"reserved"`
		DeviceFree int64 `json:"device_free"`
	} `json:"oom_events"`
}

func (o *outcome) String() string { return fmt.Sprintf("%s@%v", o.Conf, o.Capacity) }

// TestCounterfactuals compares what a replay says with what really happened
// when the same script ran under other settings and on other devices.
func TestCounterfactuals(t *testing.T) {
	for _, dir := range runs(t) {
		raw, err := os.ReadFile(filepath.Join(dir, "counterfactual.json"))
		if err != nil {
			continue
		}
		var truths []outcome
		if err := json.Unmarshal(raw, &truths); err != nil {
			t.Fatal(err)
		}
		p := load(t, firstSnapshot(t, dir))
		for _, want := range truths {
			t.Run(filepath.Base(dir)+"/"+want.String(), func(t *testing.T) { checkOutcome(t, p, &want) })
		}
	}
}

func firstSnapshot(t testing.TB, dir string) string {
	for _, variant := range []string{"none", "python", "all"} {
		file := filepath.Join(dir, "snapshot_"+variant+".pickle.gz")
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	t.Fatalf("%s: no snapshot", dir)
	return ""
}

func checkOutcome(t *testing.T, p *Program, want *outcome) {
	set, _, err := allocator.ParseConf(want.Conf)
	if err != nil {
		t.Fatal(err)
	}
	s := Scenario{Settings: set, GPU: want.DeviceTotal, Usable: want.DeviceTotal - Outside, Allowed: p.Limits().Allowed}
	r := p.Run(s)
	t.Logf("%+v", r)
	if r.Survived {
		if want.PeakReserved < r.PeakReserved || want.PeakAllocated < r.PeakAllocated {
			t.Errorf("peaks up to the recording's end %d and %d, of the whole run %d and %d", r.PeakAllocated, r.PeakReserved, want.PeakAllocated, want.PeakReserved)
		}
		if want.Ordinal != nil && *want.Ordinal <= r.Allocations {
			t.Errorf("met the failing request %d, but %d was the one that failed", r.Allocations, *want.Ordinal)
		}
		return
	}
	if r.PeakAllocated != want.PeakAllocated {
		t.Errorf("peak allocated %d, want %d", r.PeakAllocated, want.PeakAllocated)
	}
	if r.PeakReserved != want.PeakReserved {
		t.Errorf("peak reserved %d, want %d", r.PeakReserved, want.PeakReserved)
	}
	if r.OOM != want.OOM {
		t.Fatalf("out of memory: %v, want %v", r.OOM, want.OOM)
	}
	if r.Retries != want.Retries {
		t.Errorf("%d retries, want %d", r.Retries, want.Retries)
	}
	if r.OOM && r.Allocations != *want.Ordinal {
		t.Errorf("failed after %d allocations, want %d", r.Allocations, *want.Ordinal)
	}
	if !r.OOM && want.StatsTakenAt == "dump" && (r.FinalReserved != want.FinalReserved || r.Segments != want.Segments) {
		t.Errorf("ends with %d bytes in %d segments, want %d in %d", r.FinalReserved, r.Segments, want.FinalReserved, want.Segments)
	}
}
