package classify

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/stacks"
)

func TestLeakStories(t *testing.T) {
	for _, x := range leakStories {
		for _, withStacks := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/stacks=%v", x.name, withStacks), func(t *testing.T) {
				s := newStory(t, withStacks)
				x.tell(s)
				var defects, others []string
				for _, l := range s.leaks() {
					word := l.Kind
					if l.Suspected {
						word += "?"
					}
					if l.File != "" {
						word += fmt.Sprintf(" %s:%d", path.Base(l.File), l.Line)
					}
					if l.Defect {
						defects = append(defects, word)
					} else {
						others = append(others, word)
					}
					if f := l.Fix(); f.Text == "" || f.Code == "" {
						t.Errorf("%s has no fix", l.Kind)
					}
				}
				want, also := x.want, x.also
				if !withStacks && x.mute {
					want = nil
				} else if !withStacks {
					want, also = withoutLines(want), withoutLines(also)
				}
				if !slices.Equal(defects, want) {
					t.Errorf("defects %q, want %q", defects, want)
				}
				for _, w := range others {
					if kind, _, _ := strings.Cut(w, " "); (kind == VaryingShapes || kind == FragmentationCreep) && !slices.Contains(also, w) {
						t.Errorf("%s is found", w)
					}
				}
				for _, w := range also {
					if !slices.Contains(others, w) {
						t.Errorf("%q are found besides, not %q", others, w)
					}
				}
			})
		}
	}
}

func withoutLines(words []string) (kinds []string) {
	for _, w := range words {
		kind, _, _ := strings.Cut(w, " ")
		kinds = append(kinds, kind)
	}
	return kinds
}

// A leak of 8 MiB per step fills what the last step left.
func TestStepAtCapacity(t *testing.T) {
	s := newStory(t, true)
	tr := newTrainer(s)
	s.loop(5, func(int) {
		tr.train()
		s.in(OtherPhase)
		s.alloc(Temporary, 8*mib, "log.py:7 remember")
	})
	c := s.classified()
	var peak int64
	for _, st := range c.Steps {
		peak = max(peak, st.PeakAllocated)
	}
	leaks := s.leaks()
	for _, x := range []struct {
		free int64
		want int
	}{{0, 5}, {8*mib - 1, 5}, {8 * mib, 6}, {80 * mib, 15}} {
		step, ok := leaks[0].StepAtCapacity(peak + x.free)
		if !ok || step != x.want {
			t.Errorf("with %d bytes left the capacity is hit in step %d (%v), want %d", x.free, step, ok, x.want)
		}
	}
	if leaks[0].BytesPerStep != 8*mib || leaks[0].TotalBytes != 40*mib || leaks[0].Steps != 5 || len(leaks[0].Allocations) != 5 {
		t.Errorf("leak is %+v", leaks[0])
	}
}

// A step without events, or a single one, is no reason to fall over.
func TestLeaksOfOddSteps(t *testing.T) {
	for _, steps := range [][]Step{
		nil, {{}}, {{}, {Number: 1}}, {{}, {Number: 1, FirstEvent: 1}, {Number: 2, FirstEvent: 2}},
		{{Phases: []PhaseSpan{{Backward, 0, 0}, {Forward, 0, 0}, {Backward, 0, 0}}}},
	} {
		s := newStory(t, true)
		for range 4 {
			s.free(s.alloc(Temporary, mib, "a.py:1 f"))
		}
		c := s.classified()
		c.Steps = steps
		if leaks := c.findLeaks(stacks.New(c.Timeline.Snapshot)); len(leaks) > 0 {
			t.Errorf("steps %v: %v", steps, leaks)
		}
	}
	s := newStory(t, true)
	c := s.classified()
	c.Steps = []Step{{}, {}, {}}
	if leaks := c.findLeaks(stacks.New(c.Timeline.Snapshot)); len(leaks) > 0 {
		t.Errorf("an empty recording leaks: %v", leaks)
	}
}

func BenchmarkLeaks(b *testing.B) {
	t := &testing.T{}
	s := newStory(t, true)
	tr := newTrainer(s)
	s.loop(2000, func(int) {
		tr.train()
		s.in(OtherPhase)
		s.alloc(Temporary, 8*mib, "log.py:7 remember", "train.py:16 main")
	})
	c := s.classified()
	view := stacks.New(c.Timeline.Snapshot)
	for b.Loop() {
		c.findLeaks(view)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(c.Timeline.Len()), "ns/allocation")
}

// TestFixNamesTheFile: without its folder, as Unix and Windows write it.
func TestFixNamesTheFile(t *testing.T) {
	for _, file := range []string{"/home/ml/run/train.py", `C:\Users\ml\run\train.py`, "train.py"} {
		l := Leak{Kind: GrowingList, Site: Site{File: file, Line: 14}}
		if text := l.Fix().Text; !strings.Contains(text, "(train.py:14)") {
			t.Errorf("%s: %s", file, text)
		}
	}
}
