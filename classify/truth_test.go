package classify

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/testing/corpus"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// truth is what a labelled run says of its allocations, as columns.
type truth struct {
	Categories, Phases, Strings []string
	Addr                        []uint64
	Size                        []int64
	BlockSize                   []int64 `json:"block_size"`
	Category, Phase, Sub, What  []int
	Step                        []int
	AllocEvent                  []int `json:"alloc_event"`
	FreeEvent                   []int `json:"free_event"`
	FreeCompletedEvent          []int `json:"free_completed_event"`
}

// variant is one recording of a labelled run.
type variant struct {
	OK            *bool
	Events        int
	FirstEvent    int `json:"first_event"`
	FirstOrdinal  int `json:"first_ordinal"`
	Allocs        *int
	Addresses     string
	LabelledAlloc *int `json:"labelled_allocs"`
}

// labelledRun is a program with its recordings.
type labelledRun struct {
	Name     string
	Dir      string
	Device   *int
	Variants map[string]variant
	truth    *truth
}

func readJSON(path string, v any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			return err
		}
	}
	return json.NewDecoder(r).Decode(v)
}

// labelledRuns are runs whose every allocation was labelled by the program that
// made it: the whole collection when it is at hand, else those of the project.
func labelledRuns(t *testing.T) []*labelledRun {
	t.Helper()
	if paths := corpus.Glob(t, "labelled/*/run.json"); len(paths) > 0 {
		return readRuns(t, paths)
	}
	paths, _ := filepath.Glob(filepath.Join(own, "*", "run.json"))
	return readRuns(t, paths)
}

// unseenRuns are labelled runs of the project on which no rule is tuned.
func unseenRuns(t *testing.T) []*labelledRun {
	t.Helper()
	paths, err := filepath.Glob("../testdata/unseen/*/run.json")
	if err != nil || len(paths) == 0 {
		t.Fatal("no unseen runs: ", err)
	}
	return readRuns(t, paths)
}

// readRuns reads runs with those of their recordings that are at hand.
func readRuns(t *testing.T, paths []string) (runs []*labelledRun) {
	t.Helper()
	for _, p := range paths {
		r := &labelledRun{Dir: filepath.Dir(p), truth: &truth{}}
		if err := readJSON(p, r); err != nil {
			t.Fatal(err)
		}
		if err := readJSON(filepath.Join(r.Dir, "truth.json.gz"), r.truth); err != nil {
			t.Fatal(err)
		}
		r.Name = filepath.Base(r.Dir)
		for name := range r.Variants {
			if _, err := os.Stat(r.path(name)); err != nil {
				delete(r.Variants, name)
			}
		}
		runs = append(runs, r)
	}
	return runs
}

// path of one of the run's recordings.
func (r *labelledRun) path(variant string) string {
	return filepath.Join(r.Dir, "snapshot_"+variant+".pickle.gz")
}

// timeline of the labelled device in one of the run's recordings.
func (r *labelledRun) timeline(t *testing.T, variant string) *timeline.Timeline {
	t.Helper()
	return timeline.New(r.device(t, variant))
}

// device is the labelled one in one of the run's recordings.
func (r *labelledRun) device(t *testing.T, variant string) (*snapshot.Snapshot, *snapshot.Device) {
	t.Helper()
	s, err := snapshot.Open(r.path(variant), snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Device != nil {
		return s, s.Device(*r.Device)
	}
	return s, longest(s)
}

// longest is the device with the longest trace.
func longest(s *snapshot.Snapshot) *snapshot.Device {
	best := &s.Devices[0]
	for i := range s.Devices {
		if s.Devices[i].Events.Len() > best.Events.Len() {
			best = &s.Devices[i]
		}
	}
	return best
}
