package phases

import (
	"sort"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// findSteps cuts the loop into iterations: each ends with its optimizer step,
// or with its backward when no optimizer runs, or begins with its batch when
// there is only forward.
func (a *Program) findSteps() {
	starts := a.stepStarts()
	a.Steps = nil
	for n, s := range starts {
		end := a.Last
		if n+1 < len(starts) {
			end = starts[n+1]
		}
		a.Steps = append(a.Steps, meaning.Step{Number: n, FirstEvent: s, LastEvent: end - 1, Phases: a.Spans(s, end)})
	}
	first := a.Last
	if len(starts) > 0 {
		first = starts[0]
	}
	a.Before = a.Spans(0, first)
	n := -1
	for id := range a.Step {
		b := a.Born(timeline.AllocationID(id))
		for n+1 < len(starts) && b >= starts[n+1] {
			n++
		}
		a.Step[id] = int32(n)
	}
}

// Spans lists the runs of equal phase from one event up to another.
func (a *Program) Spans(from, to int) []meaning.PhaseSpan {
	var out []meaning.PhaseSpan
	if from >= to {
		return nil
	}
	for _, r := range a.Runs[a.RunOf[from] : a.RunOf[to-1]+1] {
		last := min(r.End, to) - 1
		if n := len(out); n > 0 && out[n-1].Phase == r.Phase { // several became generation
			out[n-1].LastEvent = last
			continue
		}
		out = append(out, meaning.PhaseSpan{Phase: r.Phase, FirstEvent: max(r.First, from), LastEvent: last})
	}
	return out
}

// Peaks finds the largest allocated bytes of every step.
func (a *Program) Peaks() {
	n := 0
	a.Timeline.WalkAllocated(func(event int, bytes int64) {
		for n < len(a.Steps) && event > a.Steps[n].LastEvent {
			n++
		}
		if n < len(a.Steps) && event >= a.Steps[n].FirstEvent {
			a.Steps[n].PeakAllocated = max(a.Steps[n].PeakAllocated, bytes)
		}
	})
}

// stepStarts are the events at which an iteration begins.
//
// complexity: the loop may run ahead of its steps in several ways
func (a *Program) stepStarts() []int {
	if a.Loop >= a.Last {
		return nil
	}
	ends := a.stepEnds()
	if len(ends) == 0 {
		return a.forwardStarts()
	}
	starts := []int{a.Loop}
	i := a.Loop
	for _, e := range ends {
		i = max(i, e) // what doesn't begin a step after the end before doesn't after this one
		for i < a.Last && (a.Events.Action[i] != snapshot.Alloc || a.Phases[i] != meaning.Data &&
			a.Phases[i] != meaning.Forward &&
			a.Phases[i] != meaning.Generate) {
			i++
		}
		if i < a.Last && i > starts[len(starts)-1] {
			starts = append(starts, i)
		}
	}
	if len(starts) > 1 && a.Phases[starts[0]] == meaning.Data && a.Phases[starts[1]] == meaning.Forward {
		for starts[0]+1 < starts[1] && a.Phases[starts[0]] != meaning.Forward { // each step loads the next one's batch
			starts[0]++
		}
	}
	return starts
}

// stepEnds are the events after which an iteration is over: the last of its
// optimizers has stepped, else its backward pass has run.
func (a *Program) stepEnds() []int {
	ends := a.ticks()
	if len(ends) == 0 {
		ends = a.RunEnds(meaning.Optimizer)
	}
	if len(ends) == 0 {
		return a.RunEnds(meaning.Backward)
	}
	period := a.period(ends)
	if period == 1 || a.oneOptimizer(ends) {
		return ends
	}
	var out []int
	for i := period - 1; i < len(ends); i += period {
		out = append(out, ends[i])
	}
	return out
}

// ticks are the ends of the optimizers' annotated steps, also of those that
// allocate nothing and so have no event of their own.
func (a *Program) ticks() []int {
	var out []int
	for _, w := range a.Windows {
		if w.phase == meaning.Optimizer && (!w.fused || w.ends) && w.end < a.Last && (len(out) == 0 || w.end > out[len(out)-1]) {
			out = append(out, w.end)
		}
	}
	return out
}

// RunEnds are the ends of the stretches of one phase.
func (a *Program) RunEnds(p meaning.Phase) []int {
	var out []int
	for _, r := range a.Runs {
		if r.Phase == p && r.End > a.Loop {
			out = append(out, r.End)
		}
	}
	return out
}

// forwardStarts finds iterations without backward: where a batch is loaded, or
// where the first line of a pass allocates again.
func (a *Program) forwardStarts() []int {
	var starts []int
	used := true // by a forward pass: what is loaded in pieces is one batch
	for i := a.Loop; i < a.Last; i++ {
		switch {
		case a.Phases[i] == meaning.Forward || a.Phases[i] == meaning.Generate:
			used = true
		case used && a.Phases[i] == meaning.Data && (i == a.Loop || a.Phases[i-1] != meaning.Data) &&
			a.Events.Action[i] == snapshot.Alloc:
			starts = append(starts, i)
			used = false
		}
	}
	if len(starts) > 1 {
		return starts
	}
	return a.anchored()
}

// tickIn is the last end of an optimizer's step after one event and up to
// another, -1 when there is none.
func (a *Program) tickIn(from, to int) int {
	i := sort.Search(len(a.Windows), func(i int) bool { return a.Windows[i].first > to })
	for i--; i >= 0 && a.Windows[i].first > from; i-- {
		if w := a.Windows[i]; w.phase == meaning.Optimizer && !w.fused && w.end <= to {
			return w.end
		}
	}
	return -1
}
