package leaks

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// number is the largest allocation that can be a loss or a metric.
const number = 512 // bytes, what the allocator rounds a scalar to

// split tells the tensors of retained graphs from those of growing lists. A
// graph is kept through its last tensor, nearly always a number, and holds
// what several different operations of the forward saved; a list holds what
// was put into it.
func (l *growth) split(growing []placed) (graph, lists []placed) {
	step := l.typical(growing)
	weights := l.weightSizes()
	var before, after []placed
	for _, g := range growing {
		if l.afterBackward(&g, step) {
			after = append(after, g)
		} else {
			before = append(before, g)
		}
	}
	k := l.keptBefore(before, step, weights)
	switch {
	case l.t.Older() == 0 && k.ofWeights(weights), l.besideModules(before, step):
		return nil, growing
	case l.trains && k.trained():
	case k.varied() && k.made[0] && l.singleForward(step):
		// The layers of a single forward look the same: nothing can be said.
		return nil, nil
	case k.varied() && l.shareKept(growing, step) >= 0.25:
	case k.large >= 2 && k.kinds >= 2 && l.summed(k, before, step):
	default:
		return nil, growing
	}
	return before, after
}

// besideModules reports whether a step runs modules, and keeps nothing that they made: the graph of a pass that no backward pass
// has freed holds what its modules save.
func (l *growth) besideModules(kept []placed, step int) bool {
	if !l.untrained() { // else it freed what they saved
		return false
	}
	within := map[snapshot.StackID]bool{0: true} // nobody knows
	inside := func(id timeline.AllocationID) bool {
		stack := l.t.Stack(id)
		is, known := within[stack]
		if !known {
			is = slices.ContainsFunc(l.t.Snapshot.Stack(stack), l.isForward)
			within[stack] = is
		}
		return is
	}
	for _, g := range kept {
		if slices.ContainsFunc(g.kept, func(s survivor) bool { return int(s.born) == step && inside(s.id) }) {
			return false
		}
	}
	for event := l.first[step]; event <= l.last[step]; event++ {
		if id := l.t.Of[event]; id != timeline.NoAllocation && inside(id) {
			return true
		}
	}
	return false
}

// summed reports whether a running sum may hold the graphs of what it sums; passes that fail
// and are tried again are held by their exceptions. Without stacks nothing tells them apart.
func (l *growth) summed(k *forwardKept, before []placed, step int) bool {
	return !k.made[0] && len(l.t.OOMs) <= 1 && l.saved(before, step)
}

// forwardKept is what one step's forward made of what is kept.
type forwardKept struct {
	made, numbers         map[snapshot.StackID]bool // of large tensors, and of losses and metrics
	sizes                 map[int64]bool            // of large tensors
	large, copies, inputs int                       // tensors, those of a weight's size, and those that were read
	kinds                 int                       // of different operations that made it
}

// keptBefore counts what a step's forward made of groups.
func (l *growth) keptBefore(groups []placed, step int, weights map[int64]bool) *forwardKept {
	k := &forwardKept{made: map[snapshot.StackID]bool{}, numbers: map[snapshot.StackID]bool{}, sizes: map[int64]bool{}}
	for _, g := range groups {
		for _, s := range g.kept {
			switch stack, size := l.t.Stack(s.id), l.t.Requested(s.id); {
			case int(s.born) != step:
			case l.bytes(s.id) <= number:
				k.numbers[stack] = true
			case l.c.Phase[s.id] == meaning.Data:
				k.inputs++
			default:
				k.large++
				if weights[size] {
					k.copies++
				}
				k.made[stack], k.sizes[size] = true, true
			}
		}
	}
	k.kinds = k.operations()
	return k
}

// operations is how many different ones made what is kept.
func (k *forwardKept) operations() int {
	kinds := max(len(k.sizes), len(k.made))
	if k.made[0] { // no stacks: equal sizes may still be different operations
		kinds = max(len(k.sizes), min(k.large, 2))
	}
	for stack := range k.numbers {
		if stack != 0 && k.made[stack] { // one line makes the number and what it was made of
			kinds++
		}
	}
	return kinds
}

// ofWeights reports whether, without stacks, nearly all of it may be copies of the model's weights.
func (k *forwardKept) ofWeights(weights map[int64]bool) bool {
	return k.made[0] && 5*k.copies >= 4*k.large && 2*len(k.sizes) >= len(weights)
}

// varied reports whether it is as much, and as different, as what a forward saves.
func (k *forwardKept) varied() bool { return k.large >= 6 && k.kinds >= 3 }

// trained reports whether it is what a training step's graph holds.
func (k *forwardKept) trained() bool {
	return len(k.numbers) > 0 && k.large >= 2 && k.kinds >= 2 || k.inputs > 0 && k.large >= 4 // the first layer saves its input
}

// saved reports whether most of what a step keeps was saved for backward.
func (l *growth) saved(groups []placed, step int) bool {
	var saved, all int64
	for _, g := range groups {
		for _, s := range g.kept {
			if int(s.born) != step {
				continue
			}
			all += l.bytes(s.id)
			if c := l.c.Category[s.id]; c == meaning.Activations || c == meaning.Logits {
				saved += l.bytes(s.id)
			}
		}
	}
	return 2*saved > all
}

// singleForward reports whether a step may be one layer of a single forward.
func (l *growth) singleForward(step int) bool {
	return !l.trains && !l.untrained() && !l.hasLayers(step)
}

// hasLayers reports whether a step has layers of its own, and so isn't one.
func (l *growth) hasLayers(step int) bool {
	const many = 128 // allocations
	allocs, repeats := l.within(step)
	return allocs > many && repeats >= 3
}

// weightSizes are the sizes that weights have: those older than the first
// forward, since what it leaves may have been taken for weights.
func (l *growth) weightSizes() map[int64]bool {
	sizes := map[int64]bool{}
	for id, category := range l.c.Category {
		if born := l.t.Born[id]; category == meaning.Weights && (born == timeline.Never || born < l.forward[0]) {
			sizes[l.t.Requested(timeline.AllocationID(id))] = true
		}
	}
	return sizes
}

// typical is the step to look at: one with the median number of survivors, of
// those whose survivors are known to have survived the next step. The first
// step makes much that is made once, and counts only when there is no other.
func (l *growth) typical(growing []placed) int {
	count := make([]int, l.n)
	for _, g := range growing {
		for _, s := range g.kept {
			count[s.born]++
		}
	}
	var steps []int
	for k := 1; k < l.n-1; k++ {
		if count[k] > 0 {
			steps = append(steps, k)
		}
	}
	if len(steps) == 0 {
		return 0
	}
	slices.SortStableFunc(steps, func(a, b int) int { return cmp.Compare(count[a], count[b]) })
	return steps[len(steps)/2]
}

// afterBackward reports whether most of what a group keeps of a step was made
// after the backward had begun. (All its steps together would mislead: without
// stacks, a group may hold the optimizer's first-step state, too.)
func (l *growth) afterBackward(g *placed, step int) bool {
	after, all := 0, 0
	for _, s := range g.kept {
		if int(s.born) != step {
			continue
		}
		all++
		if l.inBackward(s) {
			after++
		}
	}
	return 2*after > all
}

// shareKept is the share of a step's forward allocations that survives.
func (l *growth) shareKept(growing []placed, step int) float64 {
	kept := 0
	for _, g := range growing {
		for _, s := range g.kept {
			if int(s.born) == step && l.bytes(s.id) > number {
				kept++
			}
		}
	}
	end := min(l.backward[step], l.last[step])
	made := 0
	for id, k := range l.all() {
		if k == step && l.t.Born[id] <= end && l.bytes(id) > number && l.c.Category[id] != meaning.Workspace {
			made++
		}
	}
	return float64(kept) / float64(max(1, made))
}
