package classify

import (
	"slices"

	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// findPhases gives every event a phase: what stacks and annotations name, then
// what the rhythm of lifetimes shows, and what lies between takes after its
// neighbours.
func (a *Program) findPhases() {
	hints := a.hints
	a.windows = a.annotated()
	a.covered = pages.Make[frames.Phase](a.last)
	done := 0 // windows may overlap: each event once
	for _, w := range a.windows {
		if w.closure {
			continue
		}
		for i := max(w.first, done); i < w.end; i++ {
			if hints[i] == 0 {
				hints[i] = hintOf(w.phase)
			}
			if w.phase == Optimizer || w.phase == ZeroGrad {
				a.covered[i] = hintOf(w.phase)
			}
		}
		done = max(done, w.end)
	}
	a.findFused()
	a.findPacked()
	for _, w := range a.windows {
		if w.phase != Data && !w.closure && !w.fused {
			a.stepping = append(a.stepping, w.first)
		}
		a.updates = a.updates || w.phase == Optimizer
	}
	if a.recorded.allocs {
		a.hintClosures(hints)
	} else {
		a.roots = a.findRoots()
		a.hintRhythm(hints)
	}
	if a.plain = a.isPlain(hints); a.plain {
		suppose(hints, OtherPhase)
	}
	a.loop = a.loopStart(hints)
	a.hintBatches(hints)
	a.hintReleases(hints)
	a.phases = a.fill(hints)
}

// suppose gives a phase to events that have none yet.
func suppose(hints []frames.Phase, p Phase) {
	for i, h := range hints {
		if h == 0 {
			hints[i] = hintOf(p)
		}
	}
}

// hintClosures leaves to optimizers that run forward and backward themselves
// what comes after backward: up to the end of the step, or up to the next
// zero_grad where that is what the closure begins with.
func (a *Program) hintClosures(hints []frames.Phase) {
	const atOnce = 2 // events
	for k, w := range a.windows {
		if !w.closure {
			continue
		}
		ends, clears := []int{w.end}, false
		for _, x := range inside(a.windows, k) {
			if x.phase == ZeroGrad {
				clears = clears || x.first <= w.first+atOnce
				ends = append(ends, x.first)
			}
		}
		if !clears {
			ends = ends[:1]
		}
		for _, end := range ends {
			rest := end
			for rest > w.first && hints[rest-1] != hintOf(Backward) {
				rest--
			}
			if rest == w.first && end < w.end {
				continue // else it only clears gradients
			}
			suppose(hints[rest:end], Optimizer)
		}
	}
}

// loopStart is the first event after the program has set itself up.
func (a *Program) loopStart(hints []frames.Phase) int {
	first := a.last
	if a.plain {
		return first
	}
	for i, h := range hints {
		if h != 0 && h != hintOf(Setup) && a.events.Action[i] == snapshot.Alloc {
			first = i
			break
		}
	}
	if a.recorded.allocs {
		return a.dataBefore(a.pastHelpers(first, hints), hints)
	}
	return min(first, a.rhythmStart())
}

// isPlain tells programs without a model: from their beginning on their stacks
// show that they neither make nor load weights, run no module and train nothing.
func (a *Program) isPlain(hints []frames.Phase) bool {
	if a.all&frames.UserInner == 0 || a.all&(frames.Weight|frames.InModule) != 0 || a.t.Older() == a.t.Len() {
		return false
	}
	for id := range timeline.AllocationID(a.t.Older()) {
		if a.outlives(id) && a.t.Stack(id) == 0 {
			return false // it may be one
		}
	}
	return !slices.ContainsFunc(hints, func(h frames.Phase) bool { return h != 0 && h != hintOf(Setup) })
}

// pastHelpers passes over torch's functions that a program's setup calls
// itself, once, outside of any module, and makes them part of it.
func (a *Program) pastHelpers(first int, hints []frames.Phase) int {
	helper := func(i int) bool {
		return hints[i] == hintOf(Forward) && a.stacks[a.events.StackOf(i)].Marks&(frames.InModule|frames.Engine) == 0
	}
	if first == a.last || !helper(first) {
		return first
	}
	last := make([]int32, len(a.stacks)) // event at which each stack allocates for the last time
	for i, action := range a.events.Action {
		if action == snapshot.Alloc {
			last[a.events.StackOf(i)] = int32(i)
		}
	}
	const once = 64 // events
	start := first
	for i := first; i < a.last; i++ {
		if a.events.Action[i] != snapshot.Alloc || hints[i] == 0 || hints[i] == hintOf(Setup) {
			continue
		}
		if !oneOf(hints[i], Forward, Generate, Data) {
			break // all of the only pass was such functions
		}
		if !helper(i) || int(last[a.events.StackOf(i)]) > i+once {
			start = i
			break
		}
	}
	if start == first {
		return first
	}
	for i := first; i < start; i++ {
		if hints[i] == hintOf(Forward) {
			hints[i] = hintOf(Setup)
		}
	}
	return start
}

// dataBefore goes back over the first batch: what is allocated right before the
// first forward, from lines that allocate again later or that a loader runs.
func (a *Program) dataBefore(first int, hints []frames.Phase) int {
	var again []bool // by stack: allocates after first
	start := first
	for i := first - 1; i >= 0 && hints[i] != hintOf(Setup); i-- {
		if a.events.Action[i] != snapshot.Alloc {
			continue
		}
		if again == nil {
			again = a.allocating(first + 1)
		}
		if !again[a.events.StackOf(i)] {
			break
		}
		start = i
	}
	if start < first {
		return start
	}
	const few = 4 // a recording of one iteration: what the program itself made last
	for i, n := first-1, 0; i >= 0 && n < few && hints[i] != hintOf(Setup); i-- {
		if a.events.Action[i] == snapshot.Alloc {
			if e := a.stacks[a.events.StackOf(i)]; e.Marks&frames.UserInner == 0 ||
				e.Marks&(frames.Weight|frames.InModule|frames.Named) != 0 {
				break
			}
			start = i
			n++
		}
	}
	return start
}

// allocating tells which stacks allocate from an event on.
func (a *Program) allocating(from int) []bool {
	out := make([]bool, len(a.stacks))
	for i := from; i < a.last; i++ {
		if a.events.Action[i] == snapshot.Alloc {
			out[a.events.StackOf(i)] = true
		}
	}
	return out
}

// hintBatches marks the lines that loaded the first batch wherever they run again.
func (a *Program) hintBatches(hints []frames.Phase) {
	if !a.recorded.allocs {
		return
	}
	a.loads = map[snapshot.StackID]bool{}
	upTo := func(ps ...Phase) int {
		i := a.loop
		for i < a.last && (hints[i] == 0 || oneOf(hints[i], ps...)) {
			i++
		}
		return i
	}
	end := upTo(Data)
	if back := upTo(Data, Forward, ZeroGrad); a.all&frames.InModule == 0 && back < a.last {
		end = back // torch's functions that a program calls itself are not where its forward begins
	}
	modules := end == a.last || hints[end] != hintOf(Backward)
	if !modules { // what backward frees is no batch
		back := end
		for i := end; i < a.last && (hints[i] == 0 || hints[i] == hintOf(Backward)); i++ {
			if hints[i] != 0 || !a.recorded.frees && back == i-1 && a.events.Action[i] != snapshot.Alloc {
				back = i
			}
		}
		end = a.batchEnd(a.loop, end, back)
	}
	for i := a.loop; i < end; i++ {
		if id := a.events.StackOf(i); a.events.Action[i] == snapshot.Alloc && a.stacks[id].Marks&frames.UserInner != 0 {
			a.loads[id] = true
		}
	}
	if len(a.loads) == 0 {
		if !modules && a.all&frames.InModule == 0 {
			a.hintFits(hints)
		}
		return
	}
	trains := slices.Contains(hints, hintOf(Backward))
	last, back := frames.Phase(0), false
	for i := a.loop; i < a.last; i++ {
		back = back || hints[i] == hintOf(Backward)
		// one line may load, run the model and compute the loss
		computing := trains && oneOf(last, Forward, Generate) && (modules || !back)
		if hints[i] == 0 && a.events.Action[i] == snapshot.Alloc && !computing {
			switch {
			case a.loads[a.events.StackOf(i)]:
				hints[i], back = hintOf(Data), false
			case !modules:
				last = hintOf(Forward)
			}
		}
		if hints[i] != 0 {
			last = hints[i]
		}
	}
}

// hintFits makes all that comes before a backward pass its forward, in a
// program without modules or batches: one that fits parameters to what it has.
func (a *Program) hintFits(hints []frames.Phase) {
	from, inside := a.loop, false // a backward pass that torch's functions don't interrupt
	for i := a.loop; i < a.last; i++ {
		switch h := hints[i]; {
		case h == 0:
		case oneOf(h, Forward, ZeroGrad):
			inside = false
		default:
			back := oneOf(h, Backward)
			if back && !inside {
				suppose(hints[from:i], Forward)
			}
			from, inside = i+1, back
		}
	}
}

// fill completes the hints: an event without one takes the phase that the work
// around it has.
func (a *Program) fill(hints []frames.Phase) []Phase {
	out := pages.Make[Phase](a.last)
	for i := 0; i < a.last; {
		if h := hints[i]; h != 0 {
			out[i] = Phase(h - 1)
			i++
			continue
		}
		j := i
		for j < a.last && hints[j] == 0 {
			j++
		}
		before, after := frames.Phase(0), frames.Phase(0)
		if i > 0 {
			before = hints[i-1]
		}
		if j < a.last {
			after = hints[j]
		}
		if before == after && before != 0 && i >= a.loop && !oneOf(before, Data, Optimizer) { // most, by far
			for k := i; k < j; k++ {
				out[k] = Phase(before - 1)
			}
		} else {
			a.fillRun(out, i, j, before, after)
		}
		i = j
	}
	return out
}

// fillRun gives a phase to the events from i up to j, which lie between two
// known phases.
func (a *Program) fillRun(out []Phase, i, j int, before, after frames.Phase) {
	set := func(from, to int, p Phase) {
		for k := from; k < to; k++ {
			out[k] = p
		}
	}
	isBefore := func(ps ...Phase) bool { return oneOf(before, ps...) }
	switch {
	case i < a.loop:
		m := min(max(a.loop, i), j)
		set(i, m, Setup)
		if m < j {
			set(m, j, Data)
		}
	case (a.isFused(i-1) || isBefore(Backward)) && (a.isFused(j) || oneOf(after, Backward)):
		set(i, j, Backward)
	case isBefore(Backward) && oneOf(after, Optimizer):
		set(i, j, OtherPhase)
	case oneOf(after, Forward, Data, Generate) && isBefore(Backward, Optimizer, ZeroGrad, Data, OtherPhase, Setup) ||
		before == 0 && oneOf(after, Forward, Generate):
		a.fillData(out, i, j)
	case isBefore(Forward, Generate):
		set(i, j, Phase(before-1))
	case oneOf(after, Backward), a.recorded.allocs && a.all&frames.InModule == 0 && isBefore(Data) && oneOf(after, ZeroGrad):
		set(i, j, Forward)
	case before == 0 && after != 0:
		set(i, j, Phase(after-1))
	default:
		set(i, j, OtherPhase)
	}
}

// fillData tells the next batch from whatever else happens between two
// iterations: a batch lives until it has been used, and where stacks tell which
// lines load batches, nothing else is one.
func (a *Program) fillData(out []Phase, i, j int) {
	first := j
	for k := i; k < j; k++ {
		if a.events.Action[k] != snapshot.Alloc {
			continue
		}
		id := a.t.Of[k]
		e := a.birth(id)
		stays := a.freed(id) > j && (!a.outlives(id) || e.Marks&frames.UserInner != 0)
		if stays && len(a.loads) == 0 || e.Marks&frames.Input != 0 {
			first = k
			break
		}
	}
	for k := i; k < j; k++ {
		out[k] = Data
		if k < first {
			out[k] = OtherPhase
		}
	}
}

func oneOf(h frames.Phase, ps ...Phase) bool {
	for _, p := range ps {
		if h == hintOf(p) {
			return true
		}
	}
	return false
}

// phaseAt is the phase of an event; what lies before the trace is setup unless
// the trace begins in the middle of the loop.
func (a *Program) phaseAt(event int) Phase {
	if event >= 0 && event < a.last {
		return a.phases[event]
	}
	return Setup
}

// assignPhases copies the events' phases and steps to the allocations made in
// them.
func (a *Program) assignPhases() {
	for i := range a.Phase {
		id := timeline.AllocationID(i)
		if b := a.born(id); b >= 0 {
			a.Phase[id] = a.phases[b]
		} else if h := a.birth(id).hint; h != 0 {
			a.Phase[id] = Phase(h - 1)
		} else {
			a.Phase[id] = Setup
		}
	}
}
