package phases

import (
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// phaseFinder finds the phases of a program's events from the hints at them.
type phaseFinder struct {
	*Program
	hints   []meaning.Hint // by event
	batches map[int64]bool // sizes of batches
}

// findPhases gives every event a phase: what stacks and annotations name, then
// what the rhythm of lifetimes shows, and what lies between takes after its
// neighbours.
func (a phaseFinder) findPhases() {
	a.Windows = a.annotated()
	a.Covered = pages.Make[meaning.Hint](a.Last)
	done := 0 // windows may overlap: each event once
	for _, w := range a.Windows {
		if w.closure {
			continue
		}
		for i := max(w.first, done); i < w.end; i++ {
			if a.hints[i] == 0 {
				a.hints[i] = meaning.HintOf(w.phase)
			}
			if w.phase == meaning.Optimizer || w.phase == meaning.ZeroGrad {
				a.Covered[i] = meaning.HintOf(w.phase)
			}
		}
		done = max(done, w.end)
	}
	a.findFused()
	a.findPacked()
	for _, w := range a.Windows {
		if w.phase != meaning.Data && !w.closure && !w.fused {
			a.stepping = append(a.stepping, w.first)
		}
		a.Updates = a.Updates || w.phase == meaning.Optimizer
	}
	if a.Recorded.Allocs {
		a.hintClosures()
	} else {
		a.Roots = rootGradients{a.Program}.find()
		a.hintRhythm()
	}
	if a.Plain = a.isPlain(); a.Plain {
		suppose(a.hints, meaning.OtherPhase)
	}
	a.Loop = a.loopStart()
	a.hintBatches()
	a.hintReleases()
	a.Phases = a.fill()
}

// suppose gives a phase to events that have none yet.
func suppose(hints []meaning.Hint, p meaning.Phase) {
	for i, h := range hints {
		if h == 0 {
			hints[i] = meaning.HintOf(p)
		}
	}
}

// hintClosures leaves to optimizers that run forward and backward themselves
// what comes after backward: up to the end of the step, and up to each zero_grad in it.
func (a phaseFinder) hintClosures() {
	for k, w := range a.Windows {
		if !w.closure {
			continue
		}
		ends := []int{w.end}
		for _, x := range inside(a.Windows, k) {
			if x.phase == meaning.ZeroGrad {
				ends = append(ends, x.first)
			}
		}
		for _, end := range ends {
			rest := end
			for rest > w.first && a.hints[rest-1] != meaning.HintOf(meaning.Backward) {
				rest--
			}
			if rest == w.first && end < w.end {
				continue // else it only clears gradients
			}
			suppose(a.hints[rest:end], meaning.Optimizer)
		}
	}
}

// loopStart is the first event after the program has set itself up.
func (a phaseFinder) loopStart() int {
	first := a.Last
	if a.Plain {
		return first
	}
	for i, h := range a.hints {
		if h != 0 && h != meaning.HintOf(meaning.Setup) && a.Events.Action[i] == snapshot.Alloc {
			first = i
			break
		}
	}
	if a.Recorded.Allocs {
		return a.dataBefore(a.pastHelpers(first))
	}
	return min(first, a.rhythmStart())
}

// isPlain tells programs without a model: from their beginning on their stacks
// show that they neither make nor load weights, run no module and train nothing.
func (a phaseFinder) isPlain() bool {
	if a.All&frames.UserInner == 0 || a.All&(frames.Weight|frames.InModule) != 0 || a.Timeline.Older() == a.Timeline.Len() {
		return false
	}
	for id := range timeline.AllocationID(a.Timeline.Older()) {
		if a.Outlives(id) && a.Timeline.Stack(id) == 0 {
			return false // it may be one
		}
	}
	return !slices.ContainsFunc(a.hints, func(h meaning.Hint) bool { return h != 0 && h != meaning.HintOf(meaning.Setup) })
}

// pastHelpers passes over torch's functions that a program's setup calls
// itself, outside of any module, and makes them part of it.
//
// complexity: skips events of several kinds in one walk
func (a phaseFinder) pastHelpers(first int) int {
	helper := func(i int) bool {
		return a.hints[i] == meaning.HintOf(meaning.Forward) &&
			a.Stacks[a.Events.StackOf(i)].Marks&(frames.InModule|frames.Engine) == 0
	}
	if first == a.Last || !helper(first) {
		return first
	}
	start := first
	for i := first; i < a.Last; i++ {
		if a.Events.Action[i] != snapshot.Alloc || a.hints[i] == 0 || a.hints[i] == meaning.HintOf(meaning.Setup) {
			continue
		}
		if !a.hints[i].Is(meaning.Forward, meaning.Generate, meaning.Data) {
			break // all of the only pass was such functions
		}
		if !helper(i) {
			start = i
			break
		}
	}
	if start == first {
		return first
	}
	for i := first; i < start; i++ {
		if a.hints[i] == meaning.HintOf(meaning.Forward) {
			a.hints[i] = meaning.HintOf(meaning.Setup)
		}
	}
	return start
}

// dataBefore goes back over the first batch: what is allocated right before the
// first forward, from lines that allocate again later or that a loader runs.
func (a phaseFinder) dataBefore(first int) int {
	var again []bool // by stack: allocates after first
	start := first
	for i := first - 1; i >= 0 && a.hints[i] != meaning.HintOf(meaning.Setup); i-- {
		if a.Events.Action[i] != snapshot.Alloc {
			continue
		}
		if again == nil {
			again = a.allocating(first + 1)
		}
		if !again[a.Events.StackOf(i)] {
			break
		}
		start = i
	}
	if start < first {
		return start
	}
	const few = 4 // a recording of one iteration: what the program itself made last
	for i, n := first-1, 0; i >= 0 && n < few && a.hints[i] != meaning.HintOf(meaning.Setup); i-- {
		if a.Events.Action[i] == snapshot.Alloc {
			if e := a.Stacks[a.Events.StackOf(i)]; e.Marks&frames.UserInner == 0 ||
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
	out := make([]bool, len(a.Stacks))
	for i := from; i < a.Last; i++ {
		if a.Events.Action[i] == snapshot.Alloc {
			out[a.Events.StackOf(i)] = true
		}
	}
	return out
}

// hintBatches marks the lines that loaded the first batch wherever they run again.
//
// complexity: the end of the first batch and its lines depend on each other
func (a phaseFinder) hintBatches() {
	if !a.Recorded.Allocs {
		return
	}
	a.Loads = map[snapshot.StackID]bool{}
	upTo := func(ps ...meaning.Phase) int {
		i := a.Loop
		for i < a.Last && (a.hints[i] == 0 || a.hints[i].Is(ps...)) {
			i++
		}
		return i
	}
	end := upTo(meaning.Data)
	if back := upTo(meaning.Data, meaning.Forward, meaning.ZeroGrad); a.All&frames.InModule == 0 && back < a.Last {
		end = back // torch's functions that a program calls itself are not where its forward begins
	}
	modules := end == a.Last || a.hints[end] != meaning.HintOf(meaning.Backward)
	if !modules { // what backward frees is no batch
		back := end
		for i := end; i < a.Last && (a.hints[i] == 0 || a.hints[i] == meaning.HintOf(meaning.Backward)); i++ {
			if a.hints[i] != 0 || !a.Recorded.Frees && back == i-1 && a.Events.Action[i] != snapshot.Alloc {
				back = i
			}
		}
		end = a.batchEnd(a.Loop, end, back)
	}
	for i := a.Loop; i < end; i++ {
		if id := a.Events.StackOf(i); a.Events.Action[i] == snapshot.Alloc && a.Stacks[id].Marks&frames.UserInner != 0 {
			a.Loads[id] = true
		}
	}
	if len(a.Loads) == 0 {
		return
	}
	trains := slices.Contains(a.hints, meaning.HintOf(meaning.Backward))
	last, back := meaning.NoHint, false
	for i := a.Loop; i < a.Last; i++ {
		back = back || a.hints[i] == meaning.HintOf(meaning.Backward)
		// one line may load, run the model and compute the loss
		computing := trains && last.Is(meaning.Forward, meaning.Generate) && (modules || !back)
		if a.hints[i] == 0 && a.Events.Action[i] == snapshot.Alloc && !computing {
			switch {
			case a.Loads[a.Events.StackOf(i)]:
				a.hints[i], back = meaning.HintOf(meaning.Data), false
			case !modules:
				last = meaning.HintOf(meaning.Forward)
			}
		}
		if a.hints[i] != 0 {
			last = a.hints[i]
		}
	}
}

// fill completes the hints: an event without one takes the phase that the work
// around it has.
func (a phaseFinder) fill() []meaning.Phase {
	out := pages.Make[meaning.Phase](a.Last)
	for i := 0; i < a.Last; {
		if h := a.hints[i]; h != 0 {
			out[i] = h.Phase()
			i++
			continue
		}
		j := i
		for j < a.Last && a.hints[j] == 0 {
			j++
		}
		before, after := meaning.NoHint, meaning.NoHint
		if i > 0 {
			before = a.hints[i-1]
		}
		if j < a.Last {
			after = a.hints[j]
		}
		if before == after && before != 0 && i >= a.Loop && !before.Is(meaning.Data, meaning.Optimizer) { // most, by far
			for k := i; k < j; k++ {
				out[k] = before.Phase()
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
//
// complexity: one case for each pair of phases that may surround a gap
func (a phaseFinder) fillRun(out []meaning.Phase, i, j int, before, after meaning.Hint) {
	set := func(from, to int, p meaning.Phase) {
		for k := from; k < to; k++ {
			out[k] = p
		}
	}
	switch {
	case i < a.Loop:
		m := min(max(a.Loop, i), j)
		set(i, m, meaning.Setup)
		if m < j {
			set(m, j, meaning.Data)
		}
	case (a.IsFused(i-1) || before.Is(meaning.Backward)) && (a.IsFused(j) || after.Is(meaning.Backward)):
		set(i, j, meaning.Backward)
	case before.Is(meaning.Backward) && after.Is(meaning.Optimizer):
		set(i, j, meaning.OtherPhase)
	case after.Is(meaning.Forward, meaning.Data, meaning.Generate) && before.Is(meaning.Backward, meaning.Optimizer,
		meaning.ZeroGrad, meaning.Data, meaning.OtherPhase, meaning.Setup) ||
		before == 0 && after.Is(meaning.Forward, meaning.Generate):
		a.fillData(out, i, j)
	case before.Is(meaning.Forward, meaning.Generate):
		set(i, j, before.Phase())
	case after.Is(meaning.Backward), a.Recorded.Allocs && a.All&frames.InModule == 0 && before.Is(meaning.Data) &&
		after.Is(meaning.ZeroGrad):
		set(i, j, meaning.Forward)
	case before == 0 && after != 0:
		set(i, j, after.Phase())
	default:
		set(i, j, meaning.OtherPhase)
	}
}

// fillData tells the next batch from whatever else happens between two
// iterations: a batch lives until it has been used, and where stacks tell which
// lines load batches, nothing else is one.
func (a phaseFinder) fillData(out []meaning.Phase, i, j int) {
	first := j
	for k := i; k < j; k++ {
		if a.Events.Action[k] != snapshot.Alloc {
			continue
		}
		id := a.Timeline.Of[k]
		e := a.Birth(id)
		stays := a.Freed(id) > j && (!a.Outlives(id) || e.Marks&frames.UserInner != 0)
		if stays && len(a.Loads) == 0 || e.Marks&frames.Input != 0 {
			first = k
			break
		}
	}
	for k := i; k < j; k++ {
		out[k] = meaning.Data
		if k < first {
			out[k] = meaning.OtherPhase
		}
	}
}

// PhaseAt is the phase of an event; what lies before the trace is setup unless
// the trace begins in the middle of the loop.
func (a *Program) PhaseAt(event int) meaning.Phase {
	if event >= 0 && event < a.Last {
		return a.Phases[event]
	}
	return meaning.Setup
}

// AssignPhases copies the events' phases and steps to the allocations made in
// them.
func (a *Program) AssignPhases() {
	for i := range a.Phase {
		id := timeline.AllocationID(i)
		if b := a.Born(id); b >= 0 {
			a.Phase[id] = a.Phases[b]
		} else if h := a.Birth(id).Hint; h != 0 {
			a.Phase[id] = h.Phase()
		} else {
			a.Phase[id] = meaning.Setup
		}
	}
}
