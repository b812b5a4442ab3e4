package classify

import (
	"slices"

	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// lossSizeByOrder sees the loss at the turn from forward to backward: the
// gradient of nll_loss and that of log_softmax, of one size in some precision
// and one after the other, and the log-softmax of that size at the end of
// forward; or scores that are by far the largest thing there.
func (a *analysis) lossSizeByOrder(p pass) int64 {
	tail, rest := a.tail(p)
	var top int64
	for _, n := range tail {
		top = max(top, n)
	}
	around := 0
	for _, n := range tail {
		if family(n, top) {
			around++
		} else {
			rest = max(rest, n)
		}
	}
	dominates := top >= 2*rest && top >= 1<<16 || around >= 2 && top*2 >= rest*3
	if p.backward == nil {
		const far = 8 // where an error has cut the pass, its end isn't the model's
		layers := around > 4 && around*3 > len(tail)*2
		if a.trains && a.weightSize[top] > 0 && a.UntrainedAt(p.first) == nil { // what follows the last backward pass
			return 0
		}
		if dominates && !layers && !a.ordinary(top) && (top >= far*rest || !a.failedBetween(p.first, p.end)) {
			return top
		}
		return 0
	}
	const picked = 64 // tokens' own scores are so much less than those of all words
	least := int64(0)
	if a.recorded.allocs { // a loss that isn't torch's own
		dominates = dominates && !a.layered(p, top)
		if dominates {
			least = top / picked
		}
	}
	first, last, n := a.head(p.backward, least)
	for _, size := range tail {
		if size != first && size != last || a.compared(p, size) {
			continue
		}
		if n >= 2 && !a.recorded.native && a.twoNumbers(p, size) || dominates && family(size, top) {
			return size
		}
	}
	return 0
}

// layered tells whether a pass's modules make what is of a size, or of its family,
// again and again: hidden layers do, and scores come from one of them.
func (a *analysis) layered(p pass, size int64) bool {
	made := 0
	for i := p.first; i < p.end; i++ {
		if a.events.Action[i] == snapshot.Alloc && family(a.events.Size[i], size) && a.stacks[a.events.StackOf(i)].depth > 1 {
			made++
		}
	}
	return made > 2
}

// compared tells whether something was there before a pass that is as large as what
// the pass ends in, as its stacks show: what a model should give, to the number.
// Targets of scores are one number for each token, unless each class is asked for
// by itself; then a model with no other input gives that one back.
func (a *analysis) compared(p pass, size int64) bool {
	if !a.recorded.allocs {
		return false
	}
	if a.given == nil {
		a.given = map[int64][]timeline.AllocationID{}
		for i := range a.Category {
			id := timeline.AllocationID(i)
			if n := a.t.Requested(id); n > scalar && (a.born(id) < 0 || oneOf(hintOf(a.Phase[id]), Setup, Data)) {
				a.given[n] = append(a.given[n], id)
			}
		}
	}
	there := func(id timeline.AllocationID) bool { return a.born(id) < p.end && a.freed(id) > p.end }
	if !slices.ContainsFunc(a.given[size], there) {
		return false
	}
	return a.all&perClass == 0 || a.onlyInput(p, size)
}

// onlyInput tells whether the batch of a pass is one tensor of a size, beside at
// most a number or two for each sample.
func (a *analysis) onlyInput(p pass, size int64) bool {
	const tiny = 4096 // times as large
	inputs := 0
	for n, ids := range a.given {
		for _, id := range ids {
			if n*tiny < size || a.Phase[id] != Data || a.born(id) >= p.end || a.freed(id) <= p.end {
				continue
			}
			if inputs++; n != size {
				return false
			}
		}
	}
	return inputs == 1
}

// ordinary tells whether most of the large requests of a loop that only runs
// forward have a size, or one of its family: its layers do.
func (a *analysis) ordinary(size int64) bool {
	if a.large == nil {
		for i := a.loop; i < a.last; i++ {
			if n := a.events.Size[i]; a.events.Action[i] == snapshot.Alloc && n > 64 && !cublasSize(n) {
				a.large = append(a.large, n)
			}
		}
		slices.Sort(a.large)
	}
	same := 0
	for _, m := range [...]int64{size, size / 2, size * 2} {
		from, _ := slices.BinarySearch(a.large, m-m/64)
		to, _ := slices.BinarySearch(a.large, m+m/64+1)
		same += to - from
	}
	return same > 8 && same*2 > len(a.large)
}

// twoNumbers tells whether nll_loss ran after the last request of a size: it
// makes the loss and the weight of all targets, one after the other.
func (a *analysis) twoNumbers(p pass, size int64) bool {
	numbers := 0
	for i := p.end - 1; i >= p.first; i-- {
		switch n := a.events.Size[i]; {
		case a.events.Action[i] != snapshot.Alloc:
		case n == size:
			return false
		case n > scalar:
			numbers = 0
		default:
			if numbers++; numbers == 2 {
				return true
			}
		}
	}
	return false
}

// tail lists the last large requests of a pass, the last one first, and the
// largest of those before them.
func (a *analysis) tail(p pass) (tail []int64, rest int64) {
	const far = 1024 // times as large as what is made of a few scores
	tail, rest = a.tailAbove(p, 64)
	crumbs, again := 0, 0
	of := map[int64]int{}
	for _, n := range tail {
		if n <= rest/far {
			crumbs++
			of[n]++
			again = max(again, of[n])
		}
	}
	if p.backward == nil && crumbs*3 >= len(tail)*2 && again > 2 { // each sequence's own are looked at
		return a.tailAbove(p, rest/far)
	}
	return tail, rest
}

// tailAbove is tail for what is larger than some bytes.
func (a *analysis) tailAbove(p pass, least int64) (tail []int64, rest int64) {
	const length = 12
	seen := 0
	for i := p.end - 1; i >= p.first; i-- {
		n := a.events.Size[i]
		if a.events.Action[i] != snapshot.Alloc || n <= least || a.sharing != nil && a.sharing[i] || a.workspaceBySize(a.t.Of[i]).sure > 0 {
			continue
		}
		if seen++; seen <= length && !a.unread(i) {
			tail = append(tail, n)
		} else {
			rest = max(rest, n)
		}
	}
	return tail, rest
}

// unread tells whether what an event makes is gone before anything else is made:
// what an operator needs for itself, and nobody reads.
func (a *analysis) unread(event int) bool {
	for i := event + 1; i < a.last; i++ {
		switch a.events.Action[i] {
		case snapshot.OOM:
			return false
		case snapshot.Alloc:
			if !cublasSize(a.events.Size[i]) { // what a matrix library needs reads it, too, but makes nothing
				return false
			}
		case snapshot.FreeRequested:
			if a.t.Of[i] == a.t.Of[event] {
				return true
			}
		}
	}
	return false
}

// head is the run of related sizes that a backward pass begins with, each made
// from the one before, which then goes: the first and the last of them, and how
// many. Before them only less than a size may come.
func (a *analysis) head(b *run, least int64) (first, last int64, n int) {
	var before timeline.AllocationID
	for i := b.first; i < b.end && n < 6; i++ {
		size := a.events.Size[i]
		if a.events.Action[i] != snapshot.Alloc || size <= 64 || n == 0 && size < least || a.sharing != nil && a.sharing[i] {
			continue
		}
		if n == 1 && size > last && size-last <= last/8 && a.freed(before) <= i+8 { // of a slice, put into that of all
			n = 0
		}
		if n > 0 && (size != last && size*2 != last && last*2 != size || a.freed(before) > i+8) {
			break
		}
		if n == 0 {
			first = size
		}
		last, before = size, a.t.Of[i]
		n++
	}
	return first, last, n
}
