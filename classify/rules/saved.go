package rules

import (
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Graphs tell whose autograd graph outlives its backward pass.
type Graphs struct {
	Retained []bool // by run: a forward whose graph does
	Whole    []bool // by run: and nearly nothing of it goes
	Retains  bool   // most of them
}

// Retention are the graphs of a program.
var Retention = Named("graphs that outlive their backward pass", FindRetained)

// FindRetained sees which forward runs keep their graph: a good part of what they
// made is still there after the next backward. What a program merely keeps of
// them is little beside what that backward frees.
func FindRetained(a *Facts) *Graphs {
	released, stayed := make([]int, len(a.Runs)), make([]int, len(a.Runs))
	for id := range timeline.AllocationID(a.Timeline.Len()) {
		b := a.Born(id)
		if a.Phase[id] != meaning.Forward || b < 0 || a.Timeline.Requested(id) <= phases.Scalar {
			continue
		}
		p := a.BackwardAfter(a.Run(b))
		switch f := a.Freed(id); {
		case p == nil || f < p.First:
		case f < p.End:
			released[a.Run(b)]++
		default:
			stayed[a.Run(b)]++
		}
	}
	retained, whole := make([]bool, len(a.Runs)), make([]bool, len(a.Runs))
	all, some := 0, 0 // forward runs before a backward pass
	for r := range retained {
		retained[r], whole[r] = stayed[r]*4 >= released[r], stayed[r] > 4*released[r]
		if released[r]+stayed[r] > 0 {
			all++
			if retained[r] {
				some++
			}
		}
	}
	return &Graphs{retained, whole, some*2 > all}
}

// SavedMarks tell what forward passes save for backward.
type SavedMarks struct {
	Saves  bool   // forward saves what a backward pass would need, in programs without one
	InBulk []bool // by allocation: freed together with many others
	Copies []bool // by allocation: casts of autocast, by size, in programs that train nothing
}

// Saved is what forward passes save.
var Saved = Named("what passes save for backward", findSaved)

// savedLook is a look at what goes together.
type savedLook struct {
	*Facts
	*SizeIndex
	*SavedMarks
}

// findSaved sees, in programs without a backward pass, whether forward keeps
// what one would need: under no_grad nearly everything is freed on the way,
// else it piles up and goes in one bulk when the output is dropped.
func findSaved(f *Facts) *SavedMarks {
	const layers = 2
	n := len(f.Category)
	a := &savedLook{f, Sizes.Of(f), &SavedMarks{InBulk: pages.Make[bool](n), Copies: pages.Make[bool](n)}}
	if a.Trains {
		findDropped(a)
		return a.SavedMarks
	}
	kept, all := keptByForward(f)
	kept += markBulks(a)
	a.Saves = a.Checkpoints || a.All&frames.Checkpointed != 0 && kept >= layers || kept >= bulk && kept*4 >= all
	return a.SavedMarks
}

// markBulks marks what goes in bulk, and counts it; autocast's casts go so, too.
func markBulks(a *savedLook) (bulks int) {
	var together []timeline.AllocationID
	flush := func() {
		switch {
		case len(together) < bulk, HaveNames(a.Timeline, together):
		case areCasts(a, together):
			for _, id := range together {
				a.Copies[id] = a.WeightHalf[a.Timeline.Requested(id)]
			}
		default:
			for _, id := range together {
				a.InBulk[id] = true
			}
			bulks += len(together)
		}
		together = together[:0]
	}
	for i := a.Loop; i < a.Last; i++ {
		switch a.Events.Action[i] {
		case snapshot.Alloc:
			flush()
		case snapshot.FreeRequested:
			if id := a.Timeline.Of[i]; id != timeline.NoAllocation && a.Born(id) >= a.Loop {
				together = append(together, id)
			}
		}
	}
	flush()
	return bulks
}

// keptByForward counts what forward passes make, and what of it is there at the end.
func keptByForward(a *Facts) (kept, all int) {
	for id := range timeline.AllocationID(a.Timeline.Len()) {
		if p := a.Phase[id]; p != meaning.Forward && p != meaning.Generate || a.Born(id) < 0 ||
			a.Birth(id).Marks&frames.Workspace != 0 {
			continue
		}
		all++
		if a.Timeline.Outlives(id) {
			kept++
		}
	}
	return kept, all
}

// bulk is how many frees at least without an allocation in between are a graph's.
const bulk = 16

// findDropped sees, in programs that train, graphs that no backward pass uses:
// many tensors of several kinds go at once, a good part of what was made
// meanwhile, or are there when the next of passes without one begins. Results
// that were merely collected are few, or of few kinds.
func findDropped(a *savedLook) {
	for _, steps := range a.Untrained {
		for _, s := range steps {
			markGraph(a, leftBy(a, s), 20)
		}
	}
	var together []timeline.AllocationID // freed in a row, without an allocation in between
	for i := a.Loop; i <= a.Last; i++ {
		switch {
		case i < a.Last && a.Events.Action[i] == snapshot.FreeRequested:
			if unused(a, i) {
				together = append(together, a.Timeline.Of[i])
			}
		case i == a.Last || a.Events.Action[i] == snapshot.Alloc || a.Events.Action[i] == snapshot.OOM:
			if len(together) >= bulk && !HaveNames(a.Timeline, together) {
				markGraph(a, together, 4)
			}
			together = together[:0]
		}
	}
}

// unused is true of the free of what was made in a pass that no backward pass used by then.
func unused(a *savedLook, freed int) bool {
	id := a.Timeline.Of[freed]
	if a.Phases[freed] == meaning.Backward || id == timeline.NoAllocation || a.Born(id) < a.Loop {
		return false
	}
	p := a.BackwardAfter(a.Run(a.Born(id)))
	return (p == nil || freed < p.First) && !a.FailedBetween(a.Born(id), freed)
}

// leftBy are what a step makes and leaves.
func leftBy(a *savedLook, s meaning.Step) (together []timeline.AllocationID) {
	for _, id := range a.Allocs(s.FirstEvent, s.LastEvent+1) {
		if a.Freed(id) > s.LastEvent {
			together = append(together, id)
		}
	}
	return together
}

// markGraph marks tensors that are a graph's, one in so many of what was made meanwhile.
func markGraph(a *savedLook, together []timeline.AllocationID, part int) {
	const kinds = 4 // stacks, or sizes where there are none
	type kind struct {
		stack snapshot.StackID
		bytes int64
	}
	if len(together) < bulk {
		return
	}
	of := map[kind]bool{}
	for _, id := range together {
		k := kind{stack: a.Timeline.Stack(id)}
		if k.stack == 0 {
			k.bytes = a.Timeline.Requested(id)
		}
		of[k] = true
	}
	first, last := slices.Min(together), slices.Max(together)
	if len(of) < kinds || len(together)*part <= int(last-first) || areCasts(a, together) {
		return
	}
	for _, id := range together {
		a.InBulk[id] = true
	}
}

// HaveNames reports whether blocks freed in a row were held by names of the program,
// not by an autograd graph: by a function's variables until it returned, by a list
// of equal tensors or by a module. Under checkpointing or no_grad nothing else holds
// them. With stacks, the function that frees variables made them, with no module's
// call in between; a graph's tensors are made within modules, and nearly all have no
// name. Without, variables and parameters go in the order in which they came, and a
// graph from its end, but for what each of its nodes saved.
func HaveNames(t *timeline.Timeline, ids []timeline.AllocationID) bool {
	s := t.Snapshot
	direct, bare, inOrder := 0, 0, 0
	sizes := map[int64]int{}
	equal := 0
	for i, id := range ids {
		stack := t.Stack(id)
		if stack == 0 {
			bare++
			n := t.Requested(id)
			sizes[n]++
			equal = max(equal, sizes[n])
			if i > 0 && ids[i-1] < id {
				inOrder++
			}
			continue
		}
		freed := t.FreeRequested[id]
		if freed == timeline.Never {
			continue
		}
		free, made := s.Stack(t.Device.Events.StackOf(int(freed))), s.Stack(stack)
		inner := len(made) - len(free)
		if len(free) == 0 || inner < 0 || !slices.Equal(made[inner+1:], free[1:]) {
			continue
		}
		if f, g := &s.Frames[made[inner]], &s.Frames[free[0]]; f.Function != g.Function || f.File != g.File {
			continue
		}
		if !slices.ContainsFunc(made[:inner], func(f snapshot.FrameID) bool {
			return s.String(s.Frames[f].Function) == "_call_impl"
		}) {
			direct++
		}
	}
	if bare == len(ids) {
		return inOrder*20 >= len(ids)*13 || equal*10 >= len(ids)*9 && inOrder*10 <= len(ids)
	}
	return direct*4 >= len(ids)*3
}

// areCasts reports whether what goes together is what autocast lets go of when it
// is left: nearly all of it half as large as a weight, and no more of a size
// than there are such weights. Under no_grad, too, weights are cast once a pass.
func areCasts(a *savedLook, together []timeline.AllocationID) bool {
	of := map[int64]int{}
	casts := 0
	for _, id := range together {
		n := a.Timeline.Requested(id)
		if of[n]++; a.WeightHalf[n] && of[n] <= a.WeightSize[2*n] {
			casts++
		}
	}
	return casts*10 >= len(together)*9
}
