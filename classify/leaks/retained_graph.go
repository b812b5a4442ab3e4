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
	made, numbers := map[snapshot.StackID]bool{}, map[snapshot.StackID]bool{}
	sizes := map[int64]bool{}
	weights := l.weightSizes()
	large, copies, inputs := 0, 0, 0
	var before, after []placed
	for _, g := range growing {
		if l.afterBackward(&g, step) {
			after = append(after, g)
			continue
		}
		before = append(before, g)
		for _, s := range g.kept {
			if int(s.born) != step {
				continue
			}
			if l.bytes(s.id) <= number {
				numbers[l.t.Stack(s.id)] = true
				continue
			}
			if l.c.Phase[s.id] == meaning.Data {
				inputs++
				continue
			}
			large++
			if weights[l.t.Requested(s.id)] {
				copies++
			}
			made[l.t.Stack(s.id)] = true
			sizes[l.t.Requested(s.id)] = true
		}
	}
	kinds := max(len(sizes), len(made))
	if made[0] { // no stacks: equal sizes may still be different operations
		kinds = max(len(sizes), min(large, 2))
	}
	for stack := range numbers {
		if stack != 0 && made[stack] { // one line makes the number and what it was made of
			kinds++
		}
	}
	trains := l.trains
	switch {
	case made[0] && l.t.Older() == 0 && 5*copies >= 4*large && 2*len(sizes) >= len(weights): // of the model's weights
		return nil, growing
	case trains && len(numbers) > 0 && large >= 2 && kinds >= 2:
	case trains && inputs > 0 && large >= 4: // the first layer saves its input
	case large >= 6 && kinds >= 3 && !trains && !l.untrained() && made[0] && !l.hasLayers(step):
		// The layers of a single forward look the same: nothing can be said.
		return nil, nil
	case large >= 6 && kinds >= 3 && l.shareKept(growing, step) >= 0.25:
	case large >= 2 && kinds >= 2 && !made[0] && len(l.t.OOMs) <= 1 && l.saved(before, step):
		// A running sum holds the graphs of what it sums; passes that fail and are tried again are held by their exceptions.
	default:
		return nil, growing
	}
	return before, after
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

// hasLayers reports whether a step has layers of its own, and so isn't one.
func (l *loop) hasLayers(step int) bool {
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
