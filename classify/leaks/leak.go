package leaks

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/names"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/together"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// The kinds of leaks, in the words of the report schema.
const (
	GrowingList        = "growing_list"        // tensors appended to something that lives on
	RetainedGraph      = "retained_graph"      // an autograd graph with its saved tensors, every step
	GradientsKept      = "gradients_kept"      // zeroed in place instead of freed
	StaleOutputs       = "stale_outputs"       // the last step's results alive during the next forward
	VaryingShapes      = "varying_shapes"      // every step asks for other sizes
	FragmentationCreep = "fragmentation_creep" // reserved grows, allocated doesn't
	FirstStepState     = "first_step_state"    // the optimizer's state, made once: no leak
)

// Site is a line of the user's program with the bytes that it keeps alive.
type Site struct {
	File     string
	Line     int
	Function string
	Bytes    int64
}

// Leak is memory that a program keeps beyond its use, or what is often taken
// for that.
type Leak struct {
	Kind       string // a word of the report schema
	Defect     bool   // a mistake in the program; else a cost, or expected
	Suspected  bool   // too few steps, or too uneven, to be sure
	Again      int    // models that the same lines made, and that all stay; 0: no models
	Joined     bool   // one tensor, made anew and larger every time; Allocations are all of them
	Untrained  bool   // of forward passes that no backward pass follows, though the program trains: steps are those passes
	OfBackward bool   // a graph that holds a backward pass's own tensors, too: create_graph=True
	Site              // the best guess at the line that keeps it; File is empty when no stack shows any

	// Made is the line that made most of what is kept, where the line above only
	// led there: the user's, else a library's. It is empty for graphs.
	Made frames.Line
	// CalledFrom is the user's line that called the function of the line above,
	// which may be the one that keeps what that returns; empty where no line
	// of the loop did.
	CalledFrom frames.Line

	Sites        []Site // the user's lines on the stacks of what is kept, most bytes first
	Category     meaning.Category
	BytesPerStep int64 // growth; for what doesn't grow, the bytes held in a step
	Steps        int   // that show it
	TotalBytes   int64 // kept at the end of the last step
	Older        int64 // of those bytes, made by steps before the trace
	Confidence   float64

	// Allocations are what is kept, in ascending order.
	Allocations []timeline.AllocationID
	// Near is the user's line that runs the optimizer, for kinds whose own
	// allocations are made by autograd and have no line.
	Near Site

	Optimizer   string // the file of torch/optim that makes the state, without its ending; "" where no stack shows one
	ForwardOnly bool   // no step has a backward pass
	Expandable  bool   // segments grow, so that blocks that requests of other sizes left fit again

	// Path are the user's lines on the stack that shows the line, innermost first, and Loop the place
	// among them of the one whose function the program's loop stands in, -1 where it isn't known.
	Path []frames.Line
	Loop int

	stack    snapshot.StackID // one that shows the line
	passes   int              // of a graph: that are kept though their backward pass is over
	lastStep int              // number of the last step
	peak     int64            // bytes allocated at most in it
}

// StepAtCapacity is the number of the step whose peak won't fit any more, if
// the growth goes on; false for what doesn't grow.
func (l *Leak) StepAtCapacity(capacity int64) (int, bool) {
	if l.Kind != GrowingList && l.Kind != RetainedGraph || l.Untrained || l.BytesPerStep <= 0 || capacity <= 0 {
		return 0, false
	}
	left := max(0, capacity-l.peak)
	return l.lastStep + 1 + int(left/l.BytesPerStep), true
}

// Next is the allocation that a later step or pass makes in the place of the k-th, NoAllocation for the last ones.
func (l *Leak) Next(k int) timeline.AllocationID {
	if each := max(1, len(l.Allocations)/max(1, l.Steps)); k+each < len(l.Allocations) {
		return l.Allocations[k+each]
	}
	return timeline.NoAllocation
}

// Told reports whether a mistake of the program is sure enough to be told, in words that say how sure, as what filled the GPU.
func (l *Leak) Told() bool {
	const often, plausible = 5, 0.75
	return l.Defect && (!l.Suspected || l.shownBy() >= often && l.Confidence >= plausible)
}

// Find judges what every step leaves behind, and what variables that looks found it in. It needs the steps, phases
// and categories; its time is linear in the allocations.
func Find(c *meaning.Result, view *frames.View, holders ...names.Holder) []Leak {
	again := modelsAgain(c, view)
	// One leak, whose state alone is a list, too.
	leaks := append(again, slices.DeleteFunc(stepLeaks(c, view), func(leak Leak) bool {
		return leak.Kind == GrowingList && slices.ContainsFunc(again, leak.overlaps)
	})...)
	leaks = slices.DeleteFunc(leaks, func(leak Leak) bool { return letsGo(c, &leak, holders) })
	for _, leak := range append(untrainedLeaks(c, view), overflowedLists(c, view)...) {
		if !slices.ContainsFunc(leaks, leak.overlaps) {
			leaks = append(leaks, leak)
		}
	}
	for _, leak := range heldLeaks(c, view, holders) { // surer than a suspicion
		leaks = slices.DeleteFunc(leaks, func(x Leak) bool { return x.Suspected && !leak.Suspected && leak.overlaps(x) })
		if !slices.ContainsFunc(leaks, leak.overlaps) {
			leaks = append(leaks, leak)
		}
	}
	broken := brokenOff(c)
	leaks = slices.DeleteFunc(leaks, func(leak Leak) bool { return ofAttempts(c, &leak, broken) })
	slices.SortStableFunc(leaks, func(a, b Leak) int {
		if a.Defect != b.Defect {
			return cmp.Compare(phases.AsInt(b.Defect), phases.AsInt(a.Defect))
		}
		return cmp.Compare(b.TotalBytes, a.TotalBytes)
	})
	return leaks
}

// brokenOff are the numbers of the steps in which a request failed, the last failure aside.
func brokenOff(c *meaning.Result) map[int32]bool {
	broken := map[int32]bool{}
	k := 0
	for _, o := range c.Timeline.OOMs[:max(0, len(c.Timeline.OOMs)-1)] { // in the order of events, as the steps are
		for k < len(c.Steps) && c.Steps[k].LastEvent < o.Event {
			k++
		}
		if k < len(c.Steps) && c.Steps[k].FirstEvent <= o.Event {
			broken[int32(c.Steps[k].Number)] = true
		}
	}
	return broken
}

// ofAttempts reports whether most of a leak comes from several steps that failed requests broke off: what they had made is held
// with their errors.
func ofAttempts(c *meaning.Result, leak *Leak, broken map[int32]bool) bool {
	const some = 2
	if len(broken) < some {
		return false
	}
	of := 0
	for _, id := range leak.Allocations {
		if broken[c.Step[id]] {
			of++
		}
	}
	return 2*of > len(leak.Allocations)
}

// stepLeaks are those of the program's loop.
func stepLeaks(c *meaning.Result, view *frames.View) []Leak {
	l := newLoop(c, view)
	if l == nil {
		return onlyStep(c, view)
	}
	var found [4][]Leak // in the order of the kinds, whichever is done first
	own := [4]*loop{l.apart(), l.apart(), l.apart(), l.apart()}
	together.Do(
		func() { found[0] = (&growth{loop: own[0]}).leaks() },
		func() { found[1] = own[1].joined() },
		func() { found[2] = append(own[2].keptGradients(), own[2].staleOutputs()...) },
		func() { found[3] = slices.Concat(own[3].varyingShapes(), own[3].creep(), own[3].firstStepState()) })
	return l.judged(slices.Concat(found[:]...))
}

// onlyStep is what one step alone can show: the state that its optimizer makes.
func onlyStep(c *meaning.Result, view *frames.View) []Leak {
	if len(c.Steps) != 1 {
		return nil
	}
	l := loopOf(c, view, c.Steps)
	return l.judged(l.firstStepState())
}

// judged are leaks of the program's loop with all that is said of them.
func (l *loop) judged(leaks []Leak) []Leak {
	last := l.n - 1
	leaks = slices.DeleteFunc(leaks, func(leak Leak) bool {
		return leak.Kind == GrowingList && leak.File == "" && leak.Category == meaning.Gradients && oneEach(l.c, leak.Allocations)
	})
	for i := range leaks {
		leak := &leaks[i]
		if leak.Kind == GrowingList && leak.File == "" && leak.Category == meaning.Gradients { // more than there are weights
			leak.Category = meaning.Temporary
		}
		l.judge(leak)
		leak.lastStep, leak.peak = l.steps[last].Number, max(l.steps[last].PeakAllocated, l.steps[max(last-1, 0)].PeakAllocated)
	}
	return leaks
}

// judge fills in what follows from what is known of a leak.
func (l *loop) judge(leak *Leak) {
	if leak.File == "" && (!l.trains && l.t.Older() > 0 || leak.Kind == GrowingList && l.mayBeLayers(leak.Allocations)) {
		leak.Confidence = min(leak.Confidence, 0.8)
	}
	at := frames.Line{Function: leak.Function, File: leak.File, Line: leak.Line}
	if leak.Kind == GrowingList && l.comesToAnEnd(leak, at) {
		leak.Confidence = min(leak.Confidence, 0.8)
	}
	leak.ForwardOnly, leak.Expandable = !l.trains, l.t.Expandable()
	if n := len(l.c.Steps); n > 0 {
		leak.lastStep, leak.peak = l.c.Steps[n-1].Number, l.t.Peaks.Allocated.Bytes
	}
	leak.Suspected = leak.shownBy() < 3 || leak.Confidence < 0.9
	fills := leak.Kind == GrowingList && l.mayFill(leak)
	leak.Defect = !fills && (leak.Kind == GrowingList || leak.Kind == RetainedGraph || leak.Kind == GradientsKept)
	leak.Suspected = leak.Suspected || fills
	l.surround(leak)
}

// comesToAnEnd reports whether what grows may be one step's: a comprehension that is the loop comes to an end, as a
// step does.
func (l *loop) comesToAnEnd(leak *Leak, at frames.Line) bool {
	return leak.Function == "<listcomp>" && l.runsIn(at) || l.mayBeOneStep(leak.Steps)
}

// mayFill reports whether so little is kept in so few steps that it may be a container that will be
// full soon: a pool of images, a window of results.
func (l *loop) mayFill(leak *Leak) bool {
	const few = 16 // steps
	return leak.shownBy() < few && leak.TotalBytes*100 < smallPart*max(l.peakAllocated(), l.t.Peaks.Allocated.Bytes)
}

// oneEach reports whether each of what piles up may be the gradient of another
// weight: without stacks, the layers of one backward pass may have been taken for
// steps.
func oneEach(c *meaning.Result, kept []timeline.AllocationID) bool {
	bySize := map[int64]int{}
	for _, id := range kept {
		bySize[c.Timeline.Requested(id)]++
	}
	for i, category := range c.Category {
		if category == meaning.Weights {
			bySize[c.Timeline.Requested(timeline.AllocationID(i))]--
		}
	}
	for _, n := range bySize {
		if n > 0 {
			return false
		}
	}
	return true
}
