package phases

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/internal/together"
	"github.com/vramscope/vramscope/timeline"
)

// Follow finds the phases, runs and steps of a program from its births and deaths, without some signals. The timeline may be
// one that was only begun.
func Follow(t *timeline.Timeline, v *StackFacts, without ...string) *Program {
	f := &facts{Program: newProgram(t, v)}
	f.join(without)
	return f.Program
}

// join is the one place where findings meet. Phases: the first signal that speaks of an event decides; what lies between
// known phases is filled last. Steps: the first signal that knows any decides.
func (f *facts) join(without []string) {
	if slices.Contains(without, Frames.ID) {
		f.hints = pages.Make[said](f.Last)
	}
	f.ask(Events, without, func(by int, x found) bool {
		f.take(by, &x)
		return false
	})
	f.Phases = pages.Make[meaning.Phase](f.Last)
	of := [16]meaning.Phase{meaning.OtherPhase} // by hint
	for p := range meaning.NumPhases {
		of[meaning.HintOf(meaning.Phase(p))] = meaning.Phase(p)
	}
	for i, h := range f.hints {
		f.Phases[i] = of[h.hint()&15]
	}
	f.findRuns()
	var generated spans
	together.Do(f.AssignPhases, func() {
		var starts []int
		if f.Loop < f.Last {
			starts = []int{f.Loop}
			f.ask(Steps, without, func(_ int, x found) bool {
				f.Checkpoints = f.Checkpoints || x.checkpointed
				if len(x.starts) > 0 {
					starts = x.starts
				}
				return len(x.starts) > 0
			})
		}
		f.cut(starts)
	}, func() {
		f.ask(Passes, without, func(_ int, x found) bool {
			f.Untrained, f.Waiting, generated = x.untrained, x.waiting, x.spans
			return true
		})
	})
	for _, s := range generated {
		for i := s.first; i < s.end; i++ {
			if meaning.HintOf(f.Phases[i]).Is(meaning.Forward, meaning.OtherPhase) {
				f.Phases[i] = s.phase
			}
		}
	}
	if len(generated) > 0 {
		f.Rephase()
	}
}

// ask asks the signals of one subject in their order, until what they find is enough.
func (f *facts) ask(of Subject, without []string, take func(by int, x found) (enough bool)) {
	for k, s := range registry {
		unmet := func(n Need) bool { return !n.met(f) }
		if s.Tells == of && !slices.Contains(without, s.ID) && !slices.ContainsFunc(s.Needs, unmet) && take(k, s.Find(f)) {
			return
		}
	}
}

// take makes facts of what a signal of phases found.
func (f *facts) take(by int, x *found) {
	if x.named != nil {
		f.hints = x.named
	}
	if x.windows != nil {
		f.Windows = x.windows
		f.lookAtWindows()
	}
	for _, s := range x.covered {
		for i := s.first; i < s.end; i++ {
			f.Covered[i] = meaning.HintOf(s.phase)
		}
	}
	f.roots = append(f.roots, x.roots...)
	slices.SortStableFunc(f.roots, func(a, b root) int { return cmp.Compare(a.first, b.first) })
	for _, r := range x.roots {
		x.spans.add(r.first, r.end+1, meaning.Backward)
	}
	for _, s := range x.spans {
		f.suppose(by, s)
	}
	if x.packed != nil {
		f.Packed, f.unpacked = x.packed, x.unpacked
	}
	if x.loads != nil {
		f.Loads = x.loads
	}
	if x.loop != nil {
		f.Loop = *x.loop
	}
}

// suppose gives a phase to events of a stretch.
func (f *facts) suppose(by int, s span) {
	for i, h := range f.hints[s.first:s.end] {
		if h.hint() == s.instead {
			f.hints[int(s.first)+i] = saidBy(by, meaning.HintOf(s.phase))
		}
	}
}

// lookAtWindows notes what follows from the windows of optimizers.
func (f *facts) lookAtWindows() {
	f.stepping, f.Updates = nil, false
	done := 0 // windows may overlap: each event once
	for _, w := range f.Windows {
		f.Updates = f.Updates || w.phase == meaning.Optimizer
		switch {
		case w.fused:
			if f.fused == nil {
				f.fused = pages.Make[bool](f.Last)
			}
			for i := max(w.first, done); i < w.end; i++ {
				f.fused[i] = true
			}
			done = max(done, w.end)
		case w.phase != meaning.Data && w.phase != meaning.Generate && !w.closure:
			f.stepping = append(f.stepping, w.first)
		}
	}
}

// cut makes steps that begin at some events.
func (f *facts) cut(starts []int) {
	bounds := append(starts, f.Last)
	for n, s := range starts {
		f.Steps = append(f.Steps, f.step(n, s, bounds[n+1]))
	}
	f.Before = f.Spans(0, bounds[0])
	n := -1
	for id := range f.Step {
		b := f.Born(timeline.AllocationID(id))
		for n+1 < len(starts) && b >= starts[n+1] {
			n++
		}
		f.Step[id] = int32(n)
	}
}
