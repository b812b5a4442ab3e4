package leaks_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/classify/leaks"
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/frames"
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
					if kind, _, _ := strings.Cut(w,
						" "); (kind == leaks.VaryingShapes || kind == leaks.FragmentationCreep) && !slices.Contains(also, w) {
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

// TestLayersOrSteps isn't sure of a list that grows, where the steps of a recording
// without stacks may be the layers of the pass in which the program failed.
func TestLayersOrSteps(t *testing.T) {
	for _, x := range []struct {
		name   string
		stacks bool
		fails  bool
		grows  int64 // bytes by which each is larger than the one before
		sure   bool
	}{
		{"layers, or results that are kept", false, true, 0, false},
		{"results that grow", false, true, mib, true},
		{"the program goes on", false, false, 0, true},
		{"a line keeps them", true, true, 0, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := newStory(t, x.stacks)
			s.in(meaning.Setup)
			s.alloc(meaning.Weights, 512*mib, "net.py:5 __init__")
			s.loop(12, func(k int) {
				s.in(meaning.Forward)
				s.free(s.alloc(meaning.Temporary, 96*mib, "net.py:9 forward"))
				s.alloc(meaning.Temporary, 64*mib+int64(k)*x.grows, "net.py:10 forward", "main.py:5 main")
				if x.fails && k == 11 {
					s.fail(96 * mib)
				}
			})
			found := s.leaks()
			if len(found) != 1 || found[0].Kind != leaks.GrowingList || found[0].Suspected == x.sure {
				t.Errorf("%+v", found)
			}
		})
	}
}

// TestCopiesBeforeAFailure counts what a list keeps, without stacks, and not what the
// last steps hold besides: gradients as large as the copies, and the tensors of the
// pass that failed.
func TestCopiesBeforeAFailure(t *testing.T) {
	s := newStory(t, false)
	tr := newTrainer(s)
	const steps = 5
	s.loop(steps, func(k int) {
		s.in(meaning.Forward)
		for i := range tr.weights {
			s.alloc(meaning.Temporary, 64*mib+int64(i))
		}
		if k == steps-1 {
			for range 9 {
				s.alloc(meaning.Activations, 64*mib)
				s.alloc(meaning.Activations, 32*mib)
			}
			s.fail(32 * mib)
			return
		}
		tr.forward()
		tr.zeroGrad()
		tr.backward()
		tr.optimize()
	})
	found := slices.DeleteFunc(s.leaks(), func(l leaks.Leak) bool { return !l.Defect })
	if len(found) != 1 || found[0].Kind != leaks.GrowingList || found[0].TotalBytes>>20 != steps*3*64 {
		t.Errorf("%+v", found)
	}
}

// TestLeadsToLeaks tells what is said around the line of a leak: where the memory
// is made, and which of the loop's lines leads there.
func TestLeadsToLeaks(t *testing.T) {
	const library, trainer = "/opt/lib/python3.11/site-packages/bert.py:350 forward",
		"/opt/lib/python3.11/site-packages/trainer.py:9 fit"
	for _, x := range []struct {
		name   string
		stacks [2][]string // of what is kept, of the rest of a step
		want   string      // made > line < called from
	}{
		{"in a function of the loop's", [2][]string{{"a.py:12 encode", "a.py:18 <module>"}, {"a.py:17 <module>"}},
			" > a.py:12 < a.py:18"},
		{"in a library's module", [2][]string{{library, "a.py:12 encode", "a.py:18 <module>"}, {"a.py:17 <module>"}},
			"bert.py:350 > a.py:12 < a.py:18"},
		{"in a module of one's own", [2][]string{{"net.py:4 forward", "net.py:9 forward", "a.py:12 encode", "a.py:18 main",
			"a.py:40 <module>"}, {"a.py:17 main", "a.py:40 <module>"}}, "net.py:4 > a.py:12 < a.py:18"},
		{"in a library, for a module of one's own", [2][]string{{library, "net.py:4 forward", "a.py:12 encode", "a.py:18 main",
			"a.py:40 <module>"}, {"a.py:17 main"}}, "net.py:4 > a.py:12 < a.py:18"},
		{"in the loop", [2][]string{{"a.py:12 main", "a.py:40 <module>"}, {"a.py:11 main", "a.py:40 <module>"}}, " > a.py:12 < "},
		{"in the script", [2][]string{{"a.py:12 <module>"}, {"a.py:11 <module>"}}, " > a.py:12 < "},
		{"in a comprehension", [2][]string{{"a.py:12 <dictcomp>", "a.py:12 remember", "a.py:18 <module>"}, {"a.py:11 <module>"}},
			" > a.py:12 < a.py:18"},
		{"in what a library calls", [2][]string{{"a.py:12 compute_loss", trainer, "a.py:18 main"}, {trainer, "a.py:18 main"}},
			" > a.py:12 < "},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := newStory(t, true)
			s.alloc(meaning.Weights, 256*mib, "a.py:3 <module>")
			s.loop(6, func(int) {
				s.in(meaning.Data)
				in := s.alloc(meaning.Inputs, mib, x.stacks[1]...)
				s.in(meaning.Forward)
				for range 3 {
					s.free(s.alloc(meaning.Temporary, 32*mib, x.stacks[1]...))
				}
				s.alloc(meaning.Temporary, 4*mib, x.stacks[0]...)
				s.free(in)
			})
			for _, l := range s.leaks() {
				if l.Kind != leaks.GrowingList {
					continue
				}
				word := func(file string, line int) string {
					if file == "" {
						return ""
					}
					return fmt.Sprintf("%s:%d", path.Base(file), line)
				}
				if got := word(l.Made.File, l.Made.Line) + " > " + word(l.File, l.Line) + " < " + word(l.CalledFrom.File,
					l.CalledFrom.Line); got != x.want {
					t.Errorf("%s, want %s", got, x.want)
				}
				return
			}
			t.Errorf("no list grows: %v", s.leaks())
		})
	}
}

// TestMadeByMost has a module that keeps two tensors of one size from one of its
// lines, and before them another from a library's below the line that calls it.
func TestMadeByMost(t *testing.T) {
	s := newStory(t, true)
	s.alloc(meaning.Weights, 256*mib, "a.py:3 <module>")
	s.loop(6, func(int) {
		s.in(meaning.Data)
		in := s.alloc(meaning.Inputs, mib, "a.py:11 main", "a.py:40 <module>")
		s.in(meaning.Forward)
		for range 3 {
			s.free(s.alloc(meaning.Temporary, 32*mib, "a.py:11 main", "a.py:40 <module>"))
		}
		s.alloc(meaning.Temporary, 4*mib, linearFrame, callFrame, "net.py:7 forward", "a.py:12 main", "a.py:40 <module>")
		for range 2 {
			s.alloc(meaning.Temporary, 4*mib, "net.py:4 forward", "net.py:7 forward", "a.py:12 main", "a.py:40 <module>")
		}
		s.free(in)
	})
	found := s.leaks()
	if len(found) != 1 || path.Base(found[0].Made.File) != "net.py" || found[0].Made.Line != 4 {
		t.Errorf("made in %+v, want net.py:4", found)
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
		s.in(meaning.OtherPhase)
		s.alloc(meaning.Temporary, 8*mib, "log.py:7 remember")
	})
	c := s.result()
	var peak int64
	for _, st := range c.Steps {
		peak = max(peak, st.PeakAllocated)
	}
	found := s.leaks()
	for _, x := range []struct {
		free int64
		want int
	}{{0, 5}, {8*mib - 1, 5}, {8 * mib, 6}, {80 * mib, 15}} {
		step, ok := found[0].StepAtCapacity(peak + x.free)
		if !ok || step != x.want {
			t.Errorf("with %d bytes left the capacity is hit in step %d (%v), want %d", x.free, step, ok, x.want)
		}
	}
	if found[0].BytesPerStep != 8*mib || found[0].TotalBytes != 40*mib || found[0].Steps != 5 || len(found[0].Allocations) != 5 {
		t.Errorf("leak is %+v", found[0])
	}
}

// A step without events, or a single one, is no reason to fall over.
func TestLeaksOfOddSteps(t *testing.T) {
	for _, steps := range [][]meaning.Step{
		nil, {{}}, {{}, {Number: 1}}, {{}, {Number: 1, FirstEvent: 1}, {Number: 2, FirstEvent: 2}},
		{{Phases: []meaning.PhaseSpan{{Phase: meaning.Backward, FirstEvent: 0, LastEvent: 0}, {Phase: meaning.Forward,
			FirstEvent: 0, LastEvent: 0}, {Phase: meaning.Backward, FirstEvent: 0, LastEvent: 0}}}},
	} {
		s := newStory(t, true)
		for range 4 {
			s.free(s.alloc(meaning.Temporary, mib, "a.py:1 f"))
		}
		c := s.result()
		c.Steps = steps
		if found := leaks.Find(c, frames.New(c.Timeline.Snapshot)); len(found) > 0 {
			t.Errorf("steps %v: %v", steps, found)
		}
	}
	s := newStory(t, true)
	c := s.result()
	c.Steps = []meaning.Step{{}, {}, {}}
	if found := leaks.Find(c, frames.New(c.Timeline.Snapshot)); len(found) > 0 {
		t.Errorf("an empty recording leaks: %v", found)
	}
}

func BenchmarkLeaks(b *testing.B) {
	t := &testing.T{}
	s := newStory(t, true)
	tr := newTrainer(s)
	s.loop(2000, func(int) {
		tr.train()
		s.in(meaning.OtherPhase)
		s.alloc(meaning.Temporary, 8*mib, "log.py:7 remember", "train.py:16 main")
	})
	c := s.result()
	view := frames.New(c.Timeline.Snapshot)
	for b.Loop() {
		leaks.Find(c, view)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(c.Timeline.Len()), "ns/allocation")
}
