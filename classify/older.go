package classify

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

var olderByFrames = &Rule{
	ID: "older-by-stack",
	Doc: `Older than the recording, but the final state kept the stack that made it: judged by what that stack
says, and by the phase in which it goes.`,
	Signal: ByLife,
	Born:   Older,
	Needs:  []Need{OlderBlock},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			if a.t.Stack(id) == 0 {
				return claim{}
			}
			return olderByStack(a, id, a.freed(id))
		}
	},
}

var olderLasting = &Rule{
	ID: "older-lasting",
	Doc: `Older than the recording, and there for good. A size that comes back as gradients belongs to as many
weights; the rest of its blocks is their optimizer state. Without any history, sizes that recur three or four times
each are weights with Adam's state.`,
	Signal: ByLife,
	Born:   Older,
	Needs:  []Need{OlderBlock, Sizes},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			if !lasts(a, id) {
				return claim{}
			}
			c := a.older[id]
			c.last = true
			return c
		}
	},
}

var olderFreed = &Rule{
	ID: "older-freed",
	Doc: `Older than the recording, and judged by the phase that frees it: what a backward pass frees was saved
for it, what an optimizer's step or zero_grad frees are gradients; anything else is a guess.`,
	Signal: ByLife,
	Born:   Older,
	Needs:  []Need{OlderBlock, Lives},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			n := a.t.Requested(id)
			switch a.phaseAt(a.freed(id)) {
			case Backward:
				return as(Activations, likely)
			case Optimizer, ZeroGrad:
				if n <= scalar {
					return as(Temporary, guess)
				}
				return as(Gradients, plausible)
			case Forward, Data, Generate, OtherPhase:
				if a.gradientSize[n] > 0 && a.trains {
					return as(Gradients, guess)
				}
				return as(Temporary, guess)
			}
			return claim{}
		}
	},
}

func olderByStack(a *analysis, id timeline.AllocationID, f int) claim {
	e := a.birth(id)
	gone := f < a.last
	switch {
	case e.Marks&(frames.Loss|frames.LossGrad) != 0 && a.t.Requested(id) > 64, a.heads[a.t.Stack(id)]:
		return as(Logits, likely)
	case e.hint == hintOf(Forward) && !gone && a.graphs[a.t.Stack(id)]:
		return as(Activations, guess)
	case e.Marks&frames.MatMul != 0 && e.Marks&(frames.Workspace|frames.Copying|frames.Engine) == 0 && e.depth == 2 && !gone:
		return as(Logits, plausible)
	case e.hint == hintOf(Setup):
		return as(Weights, likely)
	case e.hint == hintOf(Data):
		return as(Inputs, likely)
	case e.hint == hintOf(Optimizer) && a.t.Requested(id) > scalar:
		return as(OptimizerState, likely)
	case e.hint == hintOf(Backward) && (!gone || a.phaseAt(f) != Backward):
		return as(Gradients, likely)
	case e.hint == hintOf(Forward) && gone && a.phaseAt(f) == Backward:
		return as(Activations, likely)
	case e.hint == 0 && e.Marks&frames.UserInner != 0 && e.Marks&frames.Named != 0:
		return as(Weights, plausible)
	case e.hint == 0 && e.Marks&frames.UserInner != 0:
		return as(Inputs, plausible)
	// kept by the program; without any history, saved as likely
	case e.hint == hintOf(Forward) && !gone && a.t.Older() < a.t.Len():
		return as(Temporary, guess)
	}
	return claim{}
}

// olderGraphs are the stacks of graphs that forward passes older than the trace
// left: what is there comes from many places in layers, which results don't, or
// is what later passes leave as parts of theirs, or of what an error cut short.
func olderGraphs(a *analysis) map[snapshot.StackID]bool {
	const many = 8
	forward := func(id timeline.AllocationID) bool {
		return a.outlives(id) && a.birth(id).hint == hintOf(Forward) && a.t.Requested(id) > 64
	}
	places, layers := map[snapshot.StackID]bool{}, 0
	for id := range timeline.AllocationID(a.t.Older()) {
		if stack := a.t.Stack(id); forward(id) && !places[stack] {
			places[stack] = true
			if a.birth(id).depth > 1 {
				layers++
			}
		}
	}
	if layers >= many || len(places) == 0 {
		return places
	}
	later := map[snapshot.StackID]bool{}
	for id := timeline.AllocationID(a.t.Older()); int(id) < a.t.Len(); id++ {
		if stack, b := a.t.Stack(id), a.born(id); forward(id) && places[stack] && (a.retained[a.run(b)] ||
			a.failedBetween(b, a.last)) {
			later[stack] = true
		}
	}
	return later
}

// lasts tells whether a block that is older than the trace is there for good: to
// its end, or, where that is the program's own, until a backward pass is over
// that follows an optimizer's step, or after one until nothing is made any more.
// Gradients and what forward saves don't last so long.
func lasts(a *analysis, id timeline.AllocationID) bool {
	f := a.freed(id)
	return f >= a.settled || f > a.made && !oneOf(hintOf(a.phaseAt(f)), Backward, Optimizer, ZeroGrad)
}

// settles finds the event from which what is older lasts, and, where an optimizer
// steps, the last at which anything is made.
func settles(a *analysis) {
	a.settled, a.made = a.last, a.last
	stepped := false
	for i := range a.runs {
		switch r := &a.runs[i]; {
		case r.phase == Optimizer:
			stepped = true
		case r.phase == Backward && stepped:
			a.settled = r.end
			return
		}
	}
	if stepped {
		for a.made--; a.made > 0 && a.events.Action[a.made] != snapshot.Alloc; {
			a.made--
		}
	}
}

// stateOfOne is how many tensors of a weight's own size an optimizer keeps for it at
// most: one where stacks or annotations name only such as keep no more; of all
// others few keep more than two.
func stateOfOne(a *analysis) int {
	s := a.t.Snapshot
	one, more := false, false
	see := func(name string) {
		switch strings.ToLower(name) {
		case "sgd", "rmsprop", "adagrad", "lion":
			one = true
		case "optimizer", "lr_scheduler", "swa_utils", "_functional", "":
		default:
			more = true
		}
	}
	for i := range s.Frames {
		if _, file, ok := strings.Cut(s.String(s.Frames[i].File), "torch/optim/"); ok {
			see(strings.TrimSuffix(file, ".py"))
		}
	}
	for _, n := range s.Annotations {
		if _, name, ok := strings.Cut(s.String(n.Name), "Optimizer.step#"); ok {
			see(strings.TrimSuffix(name, ".step"))
		}
	}
	if one && !more {
		return 1
	}
	return 2
}

// findOlder tells weights from optimizer state among the blocks that were there
// before the trace and stay: a size that comes back as gradients belongs to so
// many weights, and the rest of its blocks to their state. Weights were made
// first and lie lowest.
func findOlder(a *analysis) {
	a.older = map[timeline.AllocationID]claim{}
	var whole map[int64]int
	a.gradientSize, whole = gradientsPerStep(a)
	settles(a)
	a.graphs = olderGraphs(a)
	bySize, known := map[int64][]timeline.AllocationID{}, map[int64]int{} // by size: those without a stack; weights, by theirs
	for i := range a.t.Older() {
		id := timeline.AllocationID(i)
		switch n := a.t.Requested(id); {
		case a.t.Stack(id) != 0 && a.birth(id).hint == hintOf(Setup):
			known[n]++
		case a.t.Stack(id) == 0 && lasts(a, id):
			bySize[n] = append(bySize[n], id)
		}
	}
	if a.last == 0 || !a.trains && a.loop >= a.last {
		multiples(a, bySize)
		return
	}
	if a.trains && !returning(a, bySize) { // gradients stay, or none is recorded
		if multiples(a, bySize); len(a.older) > 0 {
			return
		}
	}
	const large = 64 << 10 // factors of moments have the sizes of biases
	state := stateOfOne(a)
	if whole != nil {
		if _, turns := a.steppingLines(a.runEnds(Optimizer)); turns {
			whole = nil // two optimizers whose models are of one size
		}
	}
	for n, ids := range bySize {
		g, half := a.gradientSize[n], a.gradientSize[n/2]
		if n%2 != 0 {
			half = 0
		}
		for k, id := range ids {
			switch {
			case cublasSize(n) && g == 0 && len(ids) <= 2:
				a.older[id] = kindOf(Workspace, CuBLAS, plausible) // before torch 2.15 it stays
			case n <= scalar && g == 0:
				a.older[id] = kindOf(OptimizerState, StepCounter, guess)
			case g > 0 && k < g-known[n]:
				a.older[id] = as(Weights, likely)
			// of a teacher, a reference, an average
			case whole[n] > 0 && n >= large && known[n]+len(ids) > (1+state)*whole[n] && k < len(ids)-state*whole[n]:
				a.older[id] = as(Weights, plausible)
			case g > 0 && known[n]+len(ids) >= 2*g:
				a.older[id] = as(OptimizerState, likely)
			case g == 0 && half > 0 && len(ids) >= 2*half:
				a.older[id] = as(OptimizerState, plausible)
			default:
				a.older[id] = as(Weights, plausible)
			}
		}
	}
}

// returning tells whether a good part of some blocks is of sizes that steps make
// gradients of.
func returning(a *analysis, bySize map[int64][]timeline.AllocationID) bool {
	var bytes, all int64
	for n, ids := range bySize {
		all += n * int64(len(ids))
		if a.gradientSize[n] > 0 {
			bytes += n * int64(len(ids))
		}
	}
	return bytes*4 >= all
}

// gradientsPerStep counts by size the gradients that a step makes on average, and
// those of a whole step where two in a row make the most; another optimizer's turn
// makes others.
func gradientsPerStep(a *analysis) (total, whole map[int64]int) {
	total = map[int64]int{}
	each := map[int32]map[int64]int{}
	bytes := map[int32]int64{}
	for i := range a.Category {
		id := timeline.AllocationID(i)
		if a.Phase[id] != Backward || a.born(id) < 0 || !outlivesPass(a, id) || a.t.Requested(id) <= scalar {
			continue
		}
		n, step := a.t.Requested(id), a.Step[id]
		if each[step] == nil {
			each[step] = map[int64]int{}
		}
		each[step][n]++
		bytes[step] += n
		total[n]++
	}
	var most int64
	for _, b := range bytes {
		most = max(most, b)
	}
	for _, step := range slices.Sorted(maps.Keys(each)) {
		if bytes[step] == most && bytes[step+1] == most {
			whole = each[step]
			break
		}
	}
	if n := len(each); n > 1 {
		for k, v := range total {
			total[k] = int(math.Round(float64(v) / float64(n)))
		}
	}
	return total, whole
}

// multiples judges a final state without history by how often every size
// recurs: three or four times is a model with its Adam state, in the order in
// which they were made. Anything else could be anything.
func multiples(a *analysis, bySize map[int64][]timeline.AllocationID) {
	var total int64
	for n, ids := range bySize {
		total += n * int64(len(ids))
	}
	fewest, sizes := math.MaxInt, 0
	for n, ids := range bySize {
		if n*int64(len(ids)) >= total/500 && !cublasSize(n) {
			fewest = min(fewest, len(ids))
			sizes++
		}
	}
	times := fewest
	if sizes < 4 || fewest < 3 || fewest > 4 {
		times = copiesOf(bySize, total)
	}
	if times == 0 {
		return
	}
	for _, ids := range bySize {
		if len(ids)%times != 0 {
			continue
		}
		each := len(ids) / times
		for k, id := range ids {
			switch {
			case k < each:
				a.older[id] = as(Weights, guess)
			case k >= len(ids)-2*each:
				a.older[id] = as(OptimizerState, guess)
			default:
				a.older[id] = as(Gradients, guess)
			}
		}
	}
}

// copiesOf is how often a model is there, three or four times, going by all sizes:
// nearly all bytes are of sizes of which there are multiples of that, and of no more.
// Layers alone would leave out embeddings and the last norm. 0: nothing shows it.
func copiesOf(bySize map[int64][]timeline.AllocationID, total int64) int {
	for _, times := range [...]int64{4, 3} {
		var bytes, common int64
		sizes := 0
		for n, ids := range bySize {
			if count := int64(len(ids)); count%times == 0 && n*count >= total/50000 {
				bytes += n * count
				common = row(common, count)
				sizes++
			}
		}
		if sizes >= 4 && common == times && bytes*100 >= total*99 {
			return int(times)
		}
	}
	return 0
}
