package classify

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// TestNeeds: a rule asks for those facts that are among its needs, and for each of them in
// one of the repository's recordings.
func TestNeeds(t *testing.T) {
	asked := map[string][]rules.Need{}
	for _, pattern := range []string{"../testdata/scenarios/*.pickle.gz", "../testdata/recordings/*/snapshot_*.pickle.gz"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatal(pattern, err)
		}
		for _, path := range paths {
			s, err := snapshot.Open(path, snapshot.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range s.Devices {
				g := Gather(s, &s.Devices[i])
				New(timeline.New(s, &s.Devices[i]), Options{Evidence: g})
				for _, r := range Rules() {
					runWatched(g.facts, r, func(n rules.Need) {
						if !slices.Contains(asked[r.ID], n) {
							asked[r.ID] = append(asked[r.ID], n)
						}
					})
				}
			}
		}
	}
	for _, r := range Rules() {
		for _, n := range asked[r.ID] {
			if !r.Asks(n) {
				t.Errorf("%s asks for %v, which isn't among its needs", r.ID, n)
			}
		}
		for _, n := range r.Needs {
			if _, ok := n.(rules.Condition); !ok && !slices.Contains(asked[r.ID], n) {
				t.Errorf("%s never asks for %v", r.ID, n)
			}
		}
	}
}

// runWatched has a rule look at a recording and claim what it can.
func runWatched(f *rules.Facts, r *rules.Rule, asked func(rules.Need)) {
	if !r.Speaks(f) {
		return
	}
	claim := r.Look(f.Watched(asked))
	for i := range f.Category {
		id := timeline.AllocationID(i)
		birth := 1 << f.Phase[id]
		if i < f.Timeline.Older() {
			birth = 1 << meaning.NumPhases
		}
		marks := f.Birth(id).Marks&r.Birth | f.Death(id).Marks&r.Death
		if claim != nil && int(r.Born)&birth != 0 && (r.Birth|r.Death == 0 || marks != 0) {
			claim(id)
		}
	}
}
