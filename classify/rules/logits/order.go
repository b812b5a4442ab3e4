package logits

import (
	"math/bits"

	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// lossSizeByOrder sees the loss at the turn from forward to backward: the
// gradient of nll_loss and that of log_softmax, of one size in some precision
// and one after the other, and the log-softmax of that size at the end of
// forward; or logits that are by far the largest thing there.
func lossSizeByOrder(a *look, p rules.Pass) int64 {
	tail, rest := tail(a, p)
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
	const large = 1 << 16 // bytes
	dominates := top >= 2*rest && top >= large || around >= 2 && top*2 >= rest*3
	if p.Backward == nil {
		layers := around > 4 && around*3 > len(tail)*2
		if dominates && !layers && endsIn(a, p, top, rest) {
			return top
		}
		return 0
	}
	const picked = 64 // tokens' own logits are so much less than those of all words
	least := int64(0)
	largest := dominates
	if a.Recorded.Allocs { // a loss that isn't torch's own
		largest = top >= large && !layered(a, p, top) && ownLoss(a, p, top, top/picked)
		if largest {
			least = top / picked
		}
	} else if top >= large && forEachToken(a, p, top, top/picked) {
		return top
	}
	first, last, n := head(a, p.Backward, least)
	for _, size := range tail {
		if size != first && size != last {
			continue
		}
		if n >= 2 && !a.Recorded.Native && twoScalars(a, p, size) || largest && family(size, top) {
			return size
		}
	}
	return 0
}

// endsIn reports whether a pass that no backward one follows may end in logits of a size that dominates the rest.
func endsIn(a *look, p rules.Pass, top, rest int64) bool {
	const far = 8 // where an error has cut the pass, its end isn't the model's

	if a.Trains && a.WeightSize[top] > 0 && a.UntrainedAt(p.First) == nil { // what follows the last backward pass
		return false
	}
	return (top >= far*rest || !a.FailedBetween(p.First, p.End)) && ofWords(a, top)
}

// forEachToken tells, without stacks, whether a pass ends in numbers for each word
// and token, its logits and their log-softmax, and then in one for each token, and
// whether backward begins with as many: gather does so, and so does what label
// smoothing takes the mean of.
func forEachToken(a *look, p rules.Pass, size, least int64) bool {
	isLogits := func(n int64) bool { return n > least && family(n, size) }
	numbers := map[int64]bool{} // each the bytes of one number for each token, if that's what they are
	copies := 0
	for i := p.End - 1; i >= p.First; i-- {
		n := a.Events.Size[i]
		if a.Events.Action[i] != snapshot.Alloc || a.IsWorkspaceBySize(a.Timeline.Of[i]) {
			continue
		}
		if isLogits(n) {
			copies++
		} else if n > least {
			break
		} else if copies == 0 && n > 64 {
			numbers[n] = true
		}
	}
	if copies < 2 {
		return false
	}
	var before, score int64 // bytes; two gradients of logits follow each other, and no weight's comes in between
	for i := p.Backward.First; i < p.Backward.End; i++ {
		n := a.Events.Size[i]
		switch {
		case a.Events.Action[i] != snapshot.Alloc || n <= 64:
		case isLogits(n) && score > 0:
			words := max(score, n) / before
			return words*before == max(score, n) && words >= fewWords
		case isLogits(n) && numbers[before]:
			score = n
		case n > least || score > 0:
			return false
		default:
			before = n
		}
	}
	return false
}

// ownLoss reports whether stacks speak for a classification loss that isn't torch's own, of
// tensors of a size: where operators have names, by one that such a loss needs, or a
// function that may hide one; else by the modules, which make nothing large after them.
func ownLoss(a *look, p rules.Pass, size, least int64) bool {
	const needed, small = frames.Softmax | frames.Loss | frames.PerClass | frames.Inductor | frames.Custom, 1 << 16
	for i := p.End - 1; i >= p.First; i-- {
		n, e := a.Events.Size[i], a.Stacks[a.Events.StackOf(i)]
		switch {
		case a.Events.Action[i] != snapshot.Alloc || e.Marks&frames.Workspace != 0 || phases.CublasSize(n):
		case a.Recorded.Native:
			if e.Marks&needed != 0 && (family(n, size) || e.Depth <= 1 && n >= small && size%n == 0) {
				return true
			}
		case e.Depth > 0 && n >= least:
			return family(n, size)
		}
	}
	return false
}

// layered reports whether a pass's modules make what is of a size, or of its family,
// again and again, and the program nothing of it in between: hidden layers do, and
// logits come from one of them.
func layered(a *look, p rules.Pass, size int64) bool {
	made := 0
	for i := range a.Allocs(p.First, p.End) {
		if !family(a.Events.Size[i], size) {
			continue
		}
		switch depth := a.Stacks[a.Events.StackOf(i)].Depth; {
		case depth == 0:
			made = 0
		case depth > 1:
			if made++; made > 2 {
				return true
			}
		}
	}
	return false
}

// twoScalars reports whether nll_loss ran soon after the last request of a size, or
// the one before, which may have been copied since: it makes the loss and the weight
// of all targets, one right after the other.
func twoScalars(a *look, p rules.Pass, size int64) bool {
	last := p.End
	for range 2 {
		for last--; last >= p.First && (a.Events.Action[last] != snapshot.Alloc || !family(a.Events.Size[last], size)); {
			last--
		}
		if last < p.First {
			return false
		}
		if scalarsAfter(a, last, p.End) {
			return true
		}
	}
	return false
}

func scalarsAfter(a *look, event, end int) bool {
	const soon = 6 // allocations
	scalars, made := 0, 0
	for i := event + 1; i < end && made < soon && scalars < 2; i++ {
		switch {
		case a.Events.Action[i] == snapshot.FreeRequested:
			scalars = 0
		case a.Events.Action[i] != snapshot.Alloc:
		case a.Events.Size[i] > phases.Scalar:
			made, scalars = made+1, 0
		default:
			made, scalars = made+1, scalars+1
		}
	}
	return scalars == 2
}

// tail lists the last large requests of a pass, the last one first, and the
// largest of those before them.
func tail(a *look, p rules.Pass) (tail []int64, rest int64) {
	const far = 1024 // times as large as what is made of a few logits
	tail, rest = tailAbove(a, p, 64)
	crumbs, again := 0, 0
	of := map[int64]int{}
	for _, n := range tail {
		if n <= rest/far {
			crumbs++
			of[n]++
			again = max(again, of[n])
		}
	}
	if crumbs*3 >= len(tail)*2 && again > 2 { // each sequence's own are looked at
		return tailAbove(a, p, rest/far)
	}
	return tail, rest
}

// tailAbove is tail for what is larger than some bytes.
func tailAbove(a *look, p rules.Pass, least int64) (tail []int64, rest int64) {
	const length = 12
	seen := 0
	for i := p.End - 1; i >= p.First; i-- {
		n := a.Events.Size[i]
		if a.Events.Action[i] != snapshot.Alloc || n <= least || a.Sharing != nil && a.Sharing[i] ||
			a.IsWorkspaceBySize(a.Timeline.Of[i]) {
			continue
		}
		if seen++; seen <= length {
			tail = append(tail, n)
		} else {
			rest = max(rest, n)
		}
	}
	return tail, rest
}

// head is the run of related sizes that a backward pass begins with, each made
// from the one before, which then goes: the first and the last of them, and how
// many. Before them only less than a size may come.
func head(a *look, b *phases.Run, least int64) (first, last int64, n int) {
	var before timeline.AllocationID
	for i := b.First; i < b.End && n < 6; i++ {
		size := a.Events.Size[i]
		if a.Events.Action[i] != snapshot.Alloc || size <= 64 || n == 0 && size < least || a.Sharing != nil && a.Sharing[i] {
			continue
		}
		if n == 1 && size > last && size-last <= last/8 && a.Freed(before) <= i+8 { // of a slice, put into that of all
			n = 0
		}
		if n > 0 && (size != last && size*2 != last && last*2 != size || a.Freed(before) > i+8) {
			break
		}
		if n == 0 {
			first = size
		}
		last, before = size, a.Timeline.Of[i]
		n++
	}
	return first, last, n
}

// ofWords reports whether a size may be that of tokens times words: some weight has as many words, and as a head or an embedding
// does for each of them a multiple of 64 numbers. What other dimensions have in common are small powers of two.
func ofWords(a *look, size int64) bool {
	const large, hidden, odd = 1 << 20, 64, 100
	all := 0
	for n := range a.WeightSize {
		row := rules.Row(size, n/hidden)
		switch {
		case n < large || n%hidden != 0:
			continue
		case row >= 1<<16, row >= 2*fewWords && row>>bits.TrailingZeros64(uint64(row)) >= odd:
			return true
		}
		all++
	}
	return all == 0
}
