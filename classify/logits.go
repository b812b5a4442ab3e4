package classify

import (
	"slices"

	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// scores marks the scores themselves while their copies are told from them.
const scores = Detail(NumDetails)

// findLogits marks scores over classes, their copies and their gradients: the
// run of equal sizes around a classification loss.
func findLogits(a *analysis) {
	a.logits = pages.Make[Detail](len(a.Category))
	if !a.trains && !a.recorded.allocs && len(a.chains) > 0 {
		markGenerated(a)
		return
	}
	a.widest, a.chunks = map[timeline.AllocationID]bool{}, map[timeline.AllocationID]bool{}
	var trained int64 // the last scores of tokens that were trained on
	passes := passes(a)
	sizes := make([]int64, len(passes))
	sure := make([]uint8, len(passes))
	found := 0
	for i, p := range passes {
		if sizes[i], sure[i] = lossSize(a, p); sizes[i] > 64 {
			found++
		}
	}
	const several = 4
	if !a.recorded.allocs && !a.trains && len(passes) >= several && found*3 < len(passes) {
		clear(sizes) // every pass that only runs forward ends in scores, or none does
	}
	for i, p := range passes {
		switch size := sizes[i]; {
		case size > 64:
			all := markForward(a, p, size)
			if p.backward != nil {
				markBackward(a, p.backward, size, all)
				trained = all
			}
			if sure[i] < strong {
				doubt(a, p, sure[i])
			}
		case p.backward == nil && a.recorded.allocs && markAtFailure(a, p):
		case p.backward == nil && trained > 0:
			markAsTrained(a, p, trained)
		default:
			markChunks(a, p)
		}
		if !a.recorded.native || !a.trains {
			markWidest(a, p)
		}
	}
}

// doubt notes how sure it is that what was marked in a pass, and its backward pass,
// are scores.
func doubt(a *analysis, p pass, sure uint8) {
	if a.doubtful == nil {
		a.doubtful = map[timeline.AllocationID]uint8{}
	}
	for i := p.first; i < p.backward.end; i++ {
		if id := a.t.Of[i]; a.events.Action[i] == snapshot.Alloc && a.logits[id] != NoDetail {
			a.doubtful[id] = sure
		}
	}
}

// lossSize is the size of the log-softmax in a forward pass, 0 when there is
// none to be seen, and how sure that is.
func lossSize(a *analysis, p pass) (size int64, sure uint8) {
	if !a.recorded.allocs {
		return lossSizeByOrder(a, p)
	}
	largest := largestIn(a, p.first, p.end, frames.Loss, frames.Loss)
	if p.backward != nil {
		largest = max(largest, largestIn(a, p.backward.first, p.backward.end, frames.LossGrad|frames.Workspace, frames.LossGrad))
	}
	if largest == 0 && p.backward != nil && largestIn(a, p.first, p.end, frames.Distance, frames.Distance) == 0 {
		return lossSizeByOrder(a, p) // the loss is compiled, or not torch's
	}
	return largest, strong
}

// largestIn is the largest request of a range whose stack has the wanted marks
// among those asked for.
func largestIn(a *analysis, first, end int, asked, wanted frames.Marks) int64 {
	var size int64
	if a.all&wanted != wanted {
		return 0
	}
	for i := first; i < end; i++ {
		if a.events.Action[i] == snapshot.Alloc && a.stacks[a.events.StackOf(i)].Marks&asked == wanted {
			size = max(size, a.events.Size[i])
		}
	}
	return size
}

// family tells whether a size is that of the scores in another precision, or
// with the last token cut off. A matrix library's workspace is none by chance.
func family(n, size int64) bool {
	for _, m := range [...]int64{size, size / 2, size * 2} {
		if n == m || !cublasSize(n) && (n > m && n-m <= m/64 || n < m && m-n <= m/64) {
			return true
		}
	}
	return false
}

// markForward marks the scores and their copies: back from the loss to the
// product that made them, and on to the end of forward. It gives the size of the
// scores of all tokens where the loss is of some of them, else the same one.
func markForward(a *analysis, p pass, size int64) int64 {
	at := lossAt(a, p, size)
	flat := transposed(a, at, p.end, size) && !sliced(a, at, p.first, size) && (a.recorded.allocs || staying(a, p, size) <= 2)
	for i := at; i < p.end; i++ {
		if a.events.Action[i] != snapshot.Alloc || flat && (i == at || a.freed(a.t.Of[i]) <= i+2) {
			continue
		}
		if family(a.events.Size[i], size) {
			a.logits[a.t.Of[i]] = LogitsCopy
		}
	}
	all := markBefore(a, at, p.first, size)
	markAlike(a, p)
	if !flat {
		markOthers(a, p, size)
	}
	return all
}

// markAlike marks the scores of other chunks of the tokens: as large as those that
// were found, made by the same lines, and no more than there are copies. A line
// that calls all layers makes other sizes, too, or more.
func markAlike(a *analysis, p pass) {
	var stack snapshot.StackID
	var size int64
	copies := 0
	for i := p.first; i < p.end; i++ {
		if a.events.Action[i] != snapshot.Alloc {
			continue
		}
		switch a.logits[a.t.Of[i]] {
		case scores:
			stack, size = a.events.StackOf(i), a.events.Size[i]
		case LogitsCopy:
			copies++
		}
	}
	if stack == 0 {
		return
	}
	var alike []timeline.AllocationID
	for i := p.first; i < p.end; i++ {
		id := a.t.Of[i]
		if a.events.Action[i] != snapshot.Alloc || a.events.StackOf(i) != stack || a.birth(id).Marks&frames.Workspace != 0 ||
			cublasSize(a.events.Size[i]) {
			continue
		}
		if a.events.Size[i] != size {
			return
		}
		alike = append(alike, id)
	}
	if len(alike) <= copies {
		for _, id := range alike {
			a.logits[id] = scores
		}
	}
}

// markBefore marks the scores and what was made of them before an event. It
// gives their size, or that of what they became where they aren't found.
func markBefore(a *analysis, at, first int, size int64) int64 {
	made := at // event that made the earliest of them
	for i, budget := at-1, 16; i >= first && budget > 0; i-- {
		if a.events.Action[i] != snapshot.Alloc {
			continue
		}
		budget--
		n, id := a.events.Size[i], a.t.Of[i]
		e := a.stacks[a.events.StackOf(i)]
		switch {
		case family(n, size) && e.Marks&frames.Workspace == 0:
			made = i
			if e.Marks&frames.MatMul != 0 && e.Marks&frames.Copying == 0 {
				a.logits[id] = scores
				return size
			}
			a.logits[id] = LogitsCopy
		case n*16 < size || e.Marks&frames.Workspace != 0 || cublasSize(n):
		case e.Marks&frames.MatMul != 0 && e.Marks&frames.Copying == 0 && e.depth <= 2 && a.freed(id) > made && sameRows(n, size):
			a.logits[id] = scores
			return n
		default:
			return size
		}
	}
	return size
}

// sameRows tells whether two sizes can be scores of different numbers of tokens,
// for as many words.
func sameRows(n, size int64) bool {
	const manyTokens, far = 1 << 16, 16
	r := row(n, size)
	return n <= far*size && size <= far*n && r >= 2*fewWords && n/r <= manyTokens && size/r <= manyTokens
}

// fewWords is how many words a language model has at least.
const fewWords = 4000

// markOthers marks what else has the size of a large log-softmax in the same
// pass, when that is little: the scores of a second model, or of the same one
// for another loss.
func markOthers(a *analysis, p pass, size int64) {
	const few = 8
	if size < 1<<20 || a.weightHalf[size] || cublasSize(size) {
		return
	}
	var same []int
	for i := p.first; i < p.end; i++ {
		if a.events.Action[i] == snapshot.Alloc && a.events.Size[i] == size &&
			a.stacks[a.events.StackOf(i)].Marks&frames.Workspace == 0 {
			if same = append(same, i); len(same) > few {
				return
			}
		}
	}
	for _, i := range same {
		if id := a.t.Of[i]; a.logits[id] == NoDetail {
			a.logits[id] = LogitsCopy
			markBefore(a, i, p.first, size)
		}
	}
}

// sliced tells whether the scores before a log-softmax have a little more than
// it: a slice that leaves out the last token is copied first, too.
func sliced(a *analysis, at, first int, size int64) bool {
	for i, budget := at-1, 8; i >= first && budget > 0; i-- {
		if a.events.Action[i] != snapshot.Alloc {
			continue
		}
		budget--
		if n := a.events.Size[i]; n > size && n-size <= size/8 && a.freed(a.t.Of[i]) > at {
			return true
		}
	}
	return false
}

// staying counts the requests of one size that forward doesn't free at once.
func staying(a *analysis, p pass, size int64) int {
	n := 0
	for i := p.first; i < p.end; i++ {
		if a.events.Action[i] == snapshot.Alloc && a.events.Size[i] == size && a.freed(a.t.Of[i]) > i+2 {
			n++
		}
	}
	return n
}

// lossAt is the log-softmax of a forward pass: the first allocation of its size
// under the loss, without stacks the last of that size that stays.
func lossAt(a *analysis, r pass, size int64) int {
	at := r.end
	for i := r.end - 1; i >= r.first; i-- {
		if a.events.Action[i] != snapshot.Alloc || a.events.Size[i] != size {
			continue
		}
		if a.stacks[a.events.StackOf(i)].Marks&frames.Loss != 0 {
			at = i
		} else if !a.recorded.allocs && a.freed(a.t.Of[i]) > i+2 {
			return i
		}
	}
	if at == r.end { // the loss is compiled: any of that size
		for i := r.first; i < r.end; i++ {
			if a.events.Action[i] == snapshot.Alloc && a.events.Size[i] == size {
				return i
			}
		}
	}
	return at
}

// transposed tells whether the log-softmax runs over another dimension than the
// last one: it copies its input for that. Its result is no row of scores.
func transposed(a *analysis, at, end int, size int64) bool {
	next := at + 1
	for next < end && a.events.Action[next] != snapshot.Alloc && a.events.Action[next] != snapshot.FreeRequested {
		next++
	}
	if next >= end || a.events.Action[next] != snapshot.Alloc || a.events.Size[next] != size {
		return false
	}
	if a.recorded.allocs && a.stacks[a.events.StackOf(at)].Marks&a.stacks[a.events.StackOf(next)].Marks&frames.Loss == 0 {
		return false
	}
	return a.freed(a.t.Of[next]) <= next+2 && a.freed(a.t.Of[at]) > next+2
}

// savedGoes tells whether scores that forward kept go right after an event, as
// those that a loss's own backward has read.
func savedGoes(a *analysis, event int, size int64) bool {
	const soon = 5 // events
	for i := event + 1; i < min(event+soon, a.last) && a.events.Action[i] != snapshot.Alloc; i++ {
		if id := a.t.Of[i]; a.events.Action[i] == snapshot.FreeRequested && a.logits[id] == LogitsCopy &&
			family(a.t.Requested(id), size) {
			return true
		}
	}
	return false
}

// markBackward marks the gradients of the scores: those that the loss is of, and
// those of all tokens.
func markBackward(a *analysis, p *run, size, all int64) {
	const crumb, many = 1024, 256 // times less than the scores: one number for each token; how many a loss needs at most
	misses, crumbs := 0, 0
	var made []timeline.AllocationID // the last two: each is made from one that then goes
	const soon = 5                   // events
	goes := func(i int) bool {
		return slices.ContainsFunc(made, func(id timeline.AllocationID) bool { return i < a.freed(id) && a.freed(id) <= i+soon })
	}
	for i, budget := p.first, 24; i < p.end && budget > 0; i++ {
		if a.events.Action[i] != snapshot.Alloc || a.sharing != nil && a.sharing[i] {
			continue
		}
		n, id := a.events.Size[i], a.t.Of[i]
		if n*crumb < size {
			crumbs++
		}
		if n*crumb >= size || crumbs > many {
			budget--
		}
		e := a.stacks[a.events.StackOf(i)]
		switch {
		case e.Marks&frames.MatMul != 0 && e.Marks&frames.Workspace == 0:
			return
		case len(made) == 1 && family(n, size) && a.freed(id) < p.end && savedGoes(a, i, size): // of the other half of the loss
			a.logits[id] = LogitsGradient
			made = append(made, id)
		case !a.recorded.native && len(made) > 0 && !goes(i) && (n*16 >= size || a.freed(id) > a.freed(made[len(made)-1])):
			return // nor is it what an operator needs in between
		case (family(n, size) || n == all) && a.freed(id) < p.end:
			a.logits[id] = LogitsGradient
			made = append(made[max(0, len(made)-1):], id)
		case n*16 < size || e.Marks&(frames.Workspace|frames.Comm) != 0 || cublasSize(n):
		case misses < 2 && (len(made) == 0 || n <= 4*max(size, all)): // else a layer's
			misses++
		default:
			return
		}
	}
}

var logitsBySize = &Rule{
	ID: "logits",
	Doc: `Logits, a copy of them, or their gradient, by size and place: what a loss is made of, tokens times
vocabulary, at the end of a forward pass and at the beginning of the backward pass. Less sure where no frame names a
loss and only the order of sizes speaks.`,
	Signal: BySize,
	Born:   anyTime,
	Needs:  []Need{Sizes, Lives},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		return func(id timeline.AllocationID) claim {
			d := a.logits[id]
			if d == NoDetail {
				return claim{}
			}
			if d == scores {
				d = NoDetail
			}
			if sure, ok := a.doubtful[id]; ok {
				return kindOf(Logits, d, sure)
			}
			return kindOf(Logits, d, strong+1)
		}
	},
}
