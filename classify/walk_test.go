package classify

import (
	"path/filepath"
	"testing"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// own are the project's recordings.
const own = "../testdata/recordings"

// forEachRecording runs a test on every recording of the project.
func forEachRecording(t *testing.T, f func(t *testing.T, tl *timeline.Timeline, c *Classification)) {
	t.Helper()
	paths, _ := filepath.Glob(filepath.Join(own, "*", "snapshot_*.pickle.gz"))
	if len(paths) == 0 {
		t.Fatal("no recordings")
	}
	for _, p := range paths {
		t.Run(filepath.Base(filepath.Dir(p))+"/"+filepath.Base(p), func(t *testing.T) {
			s, err := snapshot.Open(p, snapshot.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range s.Devices {
				tl := timeline.New(s, &s.Devices[i])
				f(t, tl, New(tl, Options{}))
			}
		})
	}
}

// TestCategoriesSumToAllocated walks every recording: at every event the
// categories of what is alive sum to the allocated bytes.
func TestCategoriesSumToAllocated(t *testing.T) {
	forEachRecording(t, func(t *testing.T, tl *timeline.Timeline, c *Classification) {
		var now [NumCategories]int64
		born, freed := map[int][]int{}, map[int][]int{}
		for id := range tl.Len() {
			if tl.FreeRequested[id] == timeline.Before {
				continue
			}
			if b := tl.Born[id]; b != timeline.Never {
				born[int(b)] = append(born[int(b)], id)
			} else {
				now[c.Category[id]] += tl.Allocated[id]
			}
			if f := tl.FreeRequested[id]; f != timeline.Never {
				freed[int(f)] = append(freed[int(f)], id)
			}
		}
		tl.Walk(func(event int, levels timeline.Levels) {
			for _, id := range freed[event] {
				now[c.Category[id]] -= tl.Allocated[id]
			}
			for _, id := range born[event] {
				now[c.Category[id]] += tl.Allocated[id]
			}
			var sum int64
			for category, bytes := range now {
				if bytes < 0 {
					t.Fatalf("event %d: %d bytes of %s", event, bytes, Category(category))
				}
				sum += bytes
			}
			if sum != levels.Allocated {
				t.Fatalf("event %d: categories sum to %d, allocated are %d", event, sum, levels.Allocated)
			}
		})
	})
}

// TestStepsTileTheLoop checks that steps follow each other without a gap, that
// their phases tile them, and that allocations say the same as events.
func TestStepsTileTheLoop(t *testing.T) {
	forEachRecording(t, func(t *testing.T, tl *timeline.Timeline, c *Classification) {
		next := 0
		spans := func(phases []PhaseSpan, last int) {
			for _, p := range phases {
				if p.FirstEvent != next || p.LastEvent < p.FirstEvent {
					t.Fatalf("%s begins at %d, expected %d", p.Phase, p.FirstEvent, next)
				}
				next = p.LastEvent + 1
			}
			if next != last+1 {
				t.Fatalf("phases end at %d, their step at %d", next-1, last)
			}
		}
		if len(c.Steps) > 0 {
			spans(c.Before, c.Steps[0].FirstEvent-1)
		}
		for n, s := range c.Steps {
			if s.Number != n || s.FirstEvent != next {
				t.Fatalf("step %d begins at %d, expected %d at %d", s.Number, s.FirstEvent, n, next)
			}
			spans(s.Phases, s.LastEvent)
		}
		for id := range tl.Len() {
			if b := tl.Born[id]; b != timeline.Never {
				if k := c.Step[id]; k >= 0 && (int(b) < c.Steps[k].FirstEvent || int(b) > c.Steps[k].LastEvent) {
					t.Fatalf("allocation %d was made at %d, not in step %d", id, b, k)
				}
			}
			if c.Confidence[id] > 100 || c.Category[id] != Unknown && c.Signal[id] == meaning.NoSignal {
				t.Fatalf("allocation %d: %s with confidence %d by %s", id, c.Category[id], c.Confidence[id], c.Signal[id])
			}
		}
	})
}

// TestPeaksOfSteps: a step's peak is the highest that the curve comes to within it, also
// where frees are missing and only an address given out again tells of them.
func TestPeaksOfSteps(t *testing.T) {
	forEachRecording(t, func(t *testing.T, whole *timeline.Timeline, _ *Classification) {
		lost, e := 0, &whole.Device.Events
		for i, action := range e.Action {
			if action == snapshot.FreeRequested || action == snapshot.FreeCompleted {
				if e.Address[i]>>9%4 == 0 {
					e.Action[i] = snapshot.SnapshotTaken
					lost++
				}
			}
		}
		tl := timeline.New(whole.Snapshot, whole.Device)
		c := New(tl, Options{})
		for n, s := range c.Steps {
			var want int64
			tl.Walk(func(event int, now timeline.Levels) {
				if s.FirstEvent <= event && event <= s.LastEvent {
					want = max(want, now.Allocated)
				}
			})
			if s.PeakAllocated != want {
				t.Fatalf("%d frees lost: step %d peaks at %d, want %d", lost, n, s.PeakAllocated, want)
			}
		}
	})
}
