package classify

import (
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// findSteps cuts the loop into iterations: each ends with its optimizer step,
// or with its backward when no optimizer runs, or begins with its batch when
// there is only forward.
func (a *analysis) findSteps() {
	starts := a.stepStarts()
	a.Steps = nil
	for n, s := range starts {
		end := a.last
		if n+1 < len(starts) {
			end = starts[n+1]
		}
		a.Steps = append(a.Steps, Step{Number: n, FirstEvent: s, LastEvent: end - 1, Phases: a.spans(s, end)})
	}
	first := a.last
	if len(starts) > 0 {
		first = starts[0]
	}
	a.Before = a.spans(0, first)
	n := -1
	for id := range a.Step {
		b := a.born(timeline.AllocationID(id))
		for n+1 < len(starts) && b >= starts[n+1] {
			n++
		}
		a.Step[id] = int32(n)
	}
	a.peaks()
}

// spans lists the runs of equal phase from one event up to another.
func (a *analysis) spans(from, to int) []PhaseSpan {
	var out []PhaseSpan
	for i := from; i < to; i++ {
		if n := len(out); n > 0 && out[n-1].Phase == a.phases[i] {
			out[n-1].LastEvent = i
			continue
		}
		out = append(out, PhaseSpan{a.phases[i], i, i})
	}
	return out
}

// peaks finds the largest allocated bytes of every step.
func (a *analysis) peaks() {
	n := 0
	now := a.t.Start.Allocated
	for i, action := range a.events.Action {
		if id := a.t.Of[i]; id != timeline.NoAllocation {
			switch action {
			case snapshot.Alloc:
				now += a.t.Allocated[id]
			case snapshot.FreeRequested:
				now -= a.t.Allocated[id]
			}
		}
		for n < len(a.Steps) && i > a.Steps[n].LastEvent {
			n++
		}
		if n < len(a.Steps) && i >= a.Steps[n].FirstEvent {
			a.Steps[n].PeakAllocated = max(a.Steps[n].PeakAllocated, now)
		}
	}
}

// stepStarts are the events at which an iteration begins.
func (a *analysis) stepStarts() []int {
	if a.loop >= a.last {
		return nil
	}
	cycle := a.cycle()
	if cycle.ends == Setup {
		return a.forwardStarts()
	}
	starts := []int{a.loop}
	ended := 0
	for i := a.loop; i < a.last; {
		j := i
		for j < a.last && a.phases[j] == a.phases[i] {
			j++
		}
		if a.phases[i] == cycle.ends {
			ended++
		}
		if ended >= cycle.length && j < a.last {
			switch a.phases[j] {
			case Data, Forward, Generate:
				if ended >= cycle.length {
					starts = append(starts, j)
					ended = 0
				}
			}
		}
		i = j
	}
	return starts
}

// cycle says which phase closes an iteration, and how many of its runs make one.
type cycle struct {
	ends   Phase
	length int
}

func (a *analysis) cycle() cycle {
	var seen [NumPhases]bool
	for _, p := range a.phases {
		seen[p] = true
	}
	switch {
	case seen[Optimizer]:
		return cycle{Optimizer, a.optimizersPerStep()}
	case seen[Backward]:
		return cycle{Backward, 1}
	}
	return cycle{Setup, 1}
}

// optimizersPerStep counts how many optimizers take turns within an iteration:
// the period of the optimizer windows' allocations.
func (a *analysis) optimizersPerStep() int {
	var allocs []int
	var between []bool // a batch was loaded since the last one
	data := false
	for i := a.loop; i < a.last; {
		j := i
		n := 0
		for j < a.last && a.phases[j] == a.phases[i] {
			if a.events.Action[j] == snapshot.Alloc {
				n++
			}
			j++
		}
		switch a.phases[i] {
		case Data:
			data = data || n > 0
		case Optimizer:
			allocs = append(allocs, n)
			between = append(between, data)
			data = false
		}
		i = j
	}
	for period := 1; period <= 4 && 2*period <= len(allocs); period++ {
		same, total := 0, 0
		for i := period + period; i < len(allocs); i++ { // the first ones make their state
			total++
			if allocs[i] == allocs[i-period] && between[i] == between[i-period] {
				same++
			}
		}
		if total > 0 && same*4 >= total*3 {
			return period
		}
	}
	return 1
}

// forwardStarts finds iterations without backward: where a batch is loaded, or
// where the first line of a pass allocates again.
func (a *analysis) forwardStarts() []int {
	var starts []int
	for i := a.loop; i < a.last; i++ {
		if a.phases[i] == Data && (i == a.loop || a.phases[i-1] != Data) && a.events.Action[i] == snapshot.Alloc {
			starts = append(starts, i)
		}
	}
	if len(starts) > 1 {
		return starts
	}
	return a.anchored()
}
