package phases

import (
	"cmp"
	"slices"
	"sort"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Run is a stretch of events in one phase.
type Run struct {
	Phase      meaning.Phase
	By         uint8 // the signal that told most of its events: place in Signals, and 1; 0: a rule made it another phase
	First, End int   // up to but without end
}

// findRuns cuts the events into runs of equal phase and says for each where the next backward pass is. Two passes with
// nothing of forward between them are two: the second may be about the gradients of the first.
func (a *Program) findRuns() {
	a.Runs = nil
	a.RunOf = pages.Make[int32](a.Last)
	for i := 0; i < a.Last; {
		p, j := a.Phases[i], i
		for j < a.Last && (a.Phases[j] == p || a.IsFused(j)) {
			j++
		}
		for k := i; k < j; k++ {
			a.RunOf[k] = int32(len(a.Runs))
		}
		a.Runs = append(a.Runs, Run{Phase: p, By: a.decided(i, j, p), First: i, End: j})
		a.Trains = a.Trains || p == meaning.Backward
		i = j
	}
	n := len(a.Runs)
	a.NextBackward, a.NextOptimizer = make([]int32, n+1), make([]int32, n)
	a.NextBackward[n] = int32(n)
	step := n
	for r := n - 1; r >= 0; r-- {
		a.NextBackward[r], a.NextOptimizer[r] = a.NextBackward[r+1], int32(step)
		switch a.Runs[r].Phase {
		case meaning.Backward:
			a.NextBackward[r] = int32(r)
		case meaning.Optimizer:
			step = r
		}
	}
}

// decided is the signal that told a phase of most events that have it, others than the neighbors of these where there are any.
func (a *Program) decided(first, end int, p meaning.Phase) (by uint8) {
	if a.hints == nil {
		return 0 // phases that were given
	}
	hints := a.hints[first:end]
	var told [16]int
	rest := uint8(0)
	for i, n := 0, 0; i < len(hints); i += n {
		h := hints[i]
		for n = 1; i+n < len(hints) && hints[i+n] == h; n++ {
		}
		switch k := h.signal(); {
		case h.hint() != meaning.HintOf(p):
		case k == neighborsAt:
			rest = uint8(k + 1)
		default:
			if told[k] += n; by == 0 || told[k] > told[by-1] || told[k] == told[by-1] && k < int(by) {
				by = uint8(k + 1)
			}
		}
	}
	return cmp.Or(by, rest)
}

// Rephase does anew what follows from the phases of events.
func (a *Program) Rephase() {
	a.findRuns()
	a.AssignPhases()
	for _, steps := range append(slices.Clip(a.Untrained), a.Steps) {
		for i := range steps {
			steps[i].Phases = a.Spans(steps[i].FirstEvent, steps[i].LastEvent+1)
		}
	}
}

// IsFused reports whether an event is part of a step within a backward pass.
func (a *Program) IsFused(event int) bool {
	return a.fused != nil && event >= 0 && event < a.Last && a.fused[event]
}

// PhaseAt is the phase of an event; what lies before the trace is setup unless the trace begins in the middle of the loop.
func (a *Program) PhaseAt(event int) meaning.Phase {
	if event >= 0 && event < a.Last {
		return a.Phases[event]
	}
	return meaning.Setup
}

// AssignPhases copies the events' phases to the allocations made in them.
func (a *Program) AssignPhases() {
	for i := range a.Phase {
		id := timeline.AllocationID(i)
		b := a.Born(id)
		if a.Phase[id] = a.PhaseAt(b); b < 0 && a.Birth(id).Hint != 0 {
			a.Phase[id] = a.Birth(id).Hint.Phase()
		}
	}
}

// Run of an event; -1 before the trace, the number of runs after it.
func (a *Program) Run(event int) int {
	if event < 0 {
		return -1
	} else if event >= a.Last {
		return len(a.Runs)
	}
	return int(a.RunOf[event])
}

// BackwardAfter is the first backward pass at or after a run, nil when there is none.
func (a *Program) BackwardAfter(r int) *Run {
	if n := int(a.NextBackward[max(r, 0)]); n < len(a.Runs) {
		return &a.Runs[n]
	}
	return nil
}

// FromItsEnd reports whether what goes at an event does in a row with many others, those first that were made last, as a graph
// does that nobody refers to any more.
func (a *Program) FromItsEnd(freed int) bool {
	const near, many, apart = 64, 16, 8 // events; blocks, and between two of them: a node's own go in any order
	if freed >= a.Last {
		return false
	}
	first, end := freed, freed
	for first > 0 && freed-first < near && a.Events.Action[first-1] != snapshot.Alloc {
		first--
	}
	for end < a.Last && end-freed < near && a.Events.Action[end] != snapshot.Alloc {
		end++
	}
	var ids []timeline.AllocationID
	for _, id := range a.frees(first, end) {
		ids = append(ids, id)
	}
	back := 0
	for k := apart; k < len(ids); k++ {
		follows := ids[k] < ids[k-apart]
		if back += AsInt(follows); !follows && (ids[k] == a.Timeline.Of[freed] || ids[k-apart] == a.Timeline.Of[freed]) {
			return false // a variable's, beside a graph
		}
	}
	return len(ids) >= many && back*10 >= (len(ids)-apart)*9
}

// FailedBetween reports whether a request failed between two events: what the error unwinds was cut short.
func (a *Program) FailedBetween(b, f int) bool {
	i := sort.SearchInts(a.OOMs, b+1)
	return i < len(a.OOMs) && a.OOMs[i] <= f
}

// ends are the ends of the loop's stretches of one phase.
func (a *Program) ends(p meaning.Phase) (out []int) {
	for _, r := range a.Runs {
		if r.Phase == p && r.End > a.Loop {
			out = append(out, r.End)
		}
	}
	return out
}

// step is an iteration, up to but without an end.
func (a *Program) step(number, first, end int) meaning.Step {
	return meaning.Step{Number: number, FirstEvent: first, LastEvent: end - 1, Phases: a.Spans(first, end)}
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
		out = append(out, meaning.PhaseSpan{Phase: r.Phase, By: r.By, FirstEvent: max(r.First, from), LastEvent: last})
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
