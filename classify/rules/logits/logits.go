// Package logits tells logits, their copies and their gradients: by the frames of a loss
// and by the order of sizes around it.
//
// A rule that finds logits marks them in Marks.Logits, from findLogits.
package logits

import (
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// plain marks the logits themselves while their copies are told from them.
const plain = meaning.Detail(meaning.NumDetails)

// Marks mark logits and what may be logits.
type Marks struct {
	Logits []meaning.Detail               // by allocation; NoDetail for anything else
	Widest map[timeline.AllocationID]bool // may be logits, though no loss shows
	Chunks map[timeline.AllocationID]bool // of a part of the tokens, of a loss that is worked out in parts
}

// Marked are the logits of a program.
var Marked = rules.Named("what may be logits by its place and size", findMarks)

// look is what tells logits, and what was found.
type look struct {
	*rules.Facts
	*rules.SizeIndex
	*Marks
	Heads, Sharing []bool
}

// findMarks marks the logits of passes with a loss, then those that the last linear map of
// the model makes in others.
func findMarks(f *rules.Facts) *Marks {
	m := &Marks{pages.Make[meaning.Detail](len(f.Category)), map[timeline.AllocationID]bool{}, map[timeline.AllocationID]bool{}}
	a := &look{f, rules.Sizes.Of(f), m, Heads.Of(f), rules.Sharing.Of(f)}
	findLogits(a)
	markUntrained(a)
	markSizes(a)
	return m
}

// findLogits marks logits over classes, their copies and their gradients: the
// run of equal sizes around a classification loss.
func findLogits(a *look) {
	var trained int64 // the last logits of tokens that were trained on
	passes := rules.Passes(a.Facts)
	sizes := make([]int64, len(passes))
	found := 0
	for i, p := range passes {
		if sizes[i] = lossSize(a, p); sizes[i] > 64 {
			found++
		}
	}
	const several = 4
	if !a.Recorded.Allocs && !a.Trains && len(passes) >= several && found*3 < len(passes) &&
		a.PhaseAt(passes[0].First) != meaning.Generate {
		// Every pass that only runs forward ends in logits, or none does; of generation those over prompts are larger.
		clear(sizes)
	}
	for i, p := range passes {
		switch size := sizes[i]; {
		case size > 64:
			all := markForward(a, p, size)
			if p.Backward != nil {
				markBackward(a, p.Backward, size, all)
				trained = all
			}
		case p.Backward == nil && trained > 0:
			markAsTrained(a, p, trained)
		default:
			markChunks(a, p)
			markFailedCopy(a, p)
		}
		if !a.Recorded.Native || !a.Trains {
			markWidest(a, p)
		}
	}
}

// lossSize is the size of the log-softmax in a forward pass, 0 when there is
// none to be seen.
func lossSize(a *look, p rules.Pass) int64 {
	if !a.Recorded.Allocs {
		return lossSizeByOrder(a, p)
	}
	largest := largestIn(a, p.First, p.End, frames.Loss, frames.Loss)
	if p.Backward != nil {
		largest = max(largest, largestIn(a, p.Backward.First, p.Backward.End, frames.LossGrad|frames.Workspace, frames.LossGrad))
	}
	if largest <= 64 && p.Backward != nil && largestIn(a, p.First, p.End, frames.Distance, frames.Distance) == 0 {
		return lossSizeByOrder(a, p) // the loss is compiled, or not torch's, or its scores are made by a method
	}
	return largest
}

// largestIn is the largest request of a range, one that failed included, whose stack has the wanted marks
// among those asked for.
func largestIn(a *look, first, end int, asked, wanted frames.Marks) int64 {
	var size int64
	if a.All&wanted != wanted {
		return 0
	}
	for i := first; i < end; i++ {
		if action := a.Events.Action[i]; (action == snapshot.Alloc || action == snapshot.OOM) &&
			a.Stacks[a.Events.StackOf(i)].Marks&asked == wanted {
			size = max(size, a.Events.Size[i])
		}
	}
	return size
}

// family reports whether a size is that of the logits in another precision, or
// with the last token cut off. A matrix library's workspace is none by chance.
func family(n, size int64) bool {
	for _, m := range [...]int64{size, size / 2, size * 2} {
		if n == m || !phases.CublasSize(n) && (n > m && n-m <= m/64 || n < m && m-n <= m/64) {
			return true
		}
	}
	return false
}

// markForward marks the logits and their copies: back from the loss to the
// product that made them, and on to the end of forward. It gives the size of the
// logits of all tokens where the loss is of some of them, else the same one.
func markForward(a *look, p rules.Pass, size int64) int64 {
	at := lossAt(a, p, size)
	for i, id := range a.Allocs(at, p.End) {
		if family(a.Events.Size[i], size) {
			a.Logits[id] = meaning.LogitsCopy
		}
	}
	all := markBefore(a, at, p.First, size)
	markOthers(a, p, size)
	return all
}

// markBefore marks the logits and what was made of them before an event. It
// gives their size, or that of what they became where they aren't found.
func markBefore(a *look, at, first int, size int64) int64 {
	made := at // event that made the earliest of them
	for i, budget := at-1, 16; i >= first && budget > 0; i-- {
		if a.Events.Action[i] != snapshot.Alloc {
			continue
		}
		budget--
		n, id := a.Events.Size[i], a.Timeline.Of[i]
		e := a.Stacks[a.Events.StackOf(i)]
		switch {
		case family(n, size) && e.Marks&frames.Workspace == 0:
			made = i
			if e.Marks&frames.MatMul != 0 && e.Marks&frames.Copying == 0 {
				a.Logits[id] = plain
				return size
			}
			a.Logits[id] = meaning.LogitsCopy
		case n*16 < size || e.Marks&frames.Workspace != 0 || phases.CublasSize(n):
		case e.Marks&frames.MatMul != 0 && e.Marks&frames.Copying == 0 && e.Depth <= 2 && a.Freed(id) > made && sameRows(n, size):
			a.Logits[id] = plain
			return n
		default:
			return size
		}
	}
	return size
}

// fewWords is how many words a language model has at least.
const fewWords = 4000

// markOthers marks what else has the size of a large log-softmax in the same
// pass, when that is little: the logits of a second model, or of the same one
// for another loss.
func markOthers(a *look, p rules.Pass, size int64) {
	const few = 16
	if size < 1<<20 || a.WeightHalf[size] || phases.CublasSize(size) {
		return
	}
	var same []int
	for i := range a.Allocs(p.First, p.End) {
		if a.Events.Size[i] == size && a.Stacks[a.Events.StackOf(i)].Marks&frames.Workspace == 0 {
			if same = append(same, i); len(same) > few {
				return
			}
		}
	}
	for _, i := range same {
		if id := a.Timeline.Of[i]; a.Logits[id] == meaning.NoDetail {
			a.Logits[id] = meaning.LogitsCopy
			markBefore(a, i, p.First, size)
		}
	}
}

// markSizes marks what else has a size that most of its blocks have as logits: of a second model, kept beyond their pass, or for
// another loss.
func markSizes(a *look) {
	const large = 1 << 20
	marked, all := map[int64]int{}, map[int64]int{}
	each := func(f func(id timeline.AllocationID, n int64)) {
		for id := timeline.AllocationID(a.Timeline.Older()); int(id) < a.Timeline.Len(); id++ {
			if n := a.Timeline.Requested(id); n >= large && a.WeightSize[n] == 0 && !a.WeightHalf[n] && !phases.CublasSize(n) &&
				a.Phase[id] != meaning.Setup {
				f(id, n)
			}
		}
	}
	each(func(id timeline.AllocationID, n int64) {
		all[n]++
		marked[n] += phases.AsInt(a.Logits[id] != meaning.NoDetail)
	})
	each(func(id timeline.AllocationID, n int64) {
		left := a.Phase[id] == meaning.Backward && rules.OutlivesPass(a.Facts, id) // no pass leaves gradients of logits
		if marked[n]*3 >= all[n]*2 && a.Logits[id] == meaning.NoDetail && !left &&
			a.Birth(id).Marks&(frames.Workspace|frames.Comm) == 0 {
			a.Logits[id] = meaning.LogitsCopy
		}
	})
}

// lossAt is the log-softmax of a forward pass: the first allocation of its size
// under the loss, without stacks the last of that size that stays.
func lossAt(a *look, r rules.Pass, size int64) int {
	at := r.End
	for i := r.End - 1; i >= r.First; i-- {
		if a.Events.Action[i] != snapshot.Alloc || a.Events.Size[i] != size {
			continue
		}
		if a.Stacks[a.Events.StackOf(i)].Marks&frames.Loss != 0 {
			at = i
		} else if !a.Recorded.Allocs && a.Freed(a.Timeline.Of[i]) > i+2 {
			return i
		}
	}
	if at == r.End { // the loss is compiled: any of that size
		for i := range a.Allocs(r.First, r.End) {
			if a.Events.Size[i] == size {
				return i
			}
		}
	}
	return at
}

// markBackward marks the gradients of the logits: those that the loss is of, and
// those of all tokens.
func markBackward(a *look, p *phases.Run, size, all int64) {
	const crumb, many = 1024, 256 // times less than the logits: one number for each token; how many a loss needs at most
	misses, crumbs := 0, 0
	var made []timeline.AllocationID // the last two: each is made from one that then goes
	const soon = 5                   // events
	goes := func(i int) bool {
		return slices.ContainsFunc(made, func(id timeline.AllocationID) bool { return i < a.Freed(id) && a.Freed(id) <= i+soon })
	}
	budget := 24
	for i, id := range a.Allocs(p.First, p.End) {
		if a.Sharing != nil && a.Sharing[i] {
			continue
		}
		n := a.Events.Size[i]
		if n*crumb < size {
			crumbs++
		}
		if n*crumb >= size || crumbs > many {
			budget--
		}
		e := a.Stacks[a.Events.StackOf(i)]
		switch {
		case budget < 0:
			return
		case e.Marks&frames.MatMul != 0 && e.Marks&frames.Workspace == 0:
			return
		case !a.Recorded.Native && len(made) > 0 && !goes(i) && (n*16 >= size || a.Freed(id) > a.Freed(made[len(made)-1])):
			return // nor is it what an operator needs in between
		case (family(n, size) || n == all) && a.Freed(id) < p.End:
			a.Logits[id] = meaning.LogitsGradient
			made = append(made[max(0, len(made)-1):], id)
		case n*16 < size || e.Marks&(frames.Workspace|frames.Comm) != 0 || phases.CublasSize(n):
		case misses < 2 && (len(made) == 0 || n <= 4*max(size, all)): // else a layer's
			misses++
		default:
			return
		}
	}
}

var LogitsBySize = &rules.Rule{
	ID: "logits",
	Doc: `Logits, a copy of them, or their gradient, by size and place: what a loss is made of, tokens times
vocabulary, at the end of a forward pass and at the beginning of the backward pass. So is what has a size that most of its blocks
have as logits. Less sure where no frame names a loss and only the order of sizes speaks, or where, without stacks, it is merely
far larger than all else that generation makes.`,
	Signal: meaning.BySize,
	Born:   rules.AnyTime,
	Needs:  []rules.Need{Marked},
	Begin: func(a *rules.Facts) rules.Says {
		m := Marked.Of(a)
		return func(id timeline.AllocationID) rules.Claim {
			d := m.Logits[id]
			switch {
			case d == meaning.NoDetail:
				return rules.Claim{}
			}
			if d == plain {
				d = meaning.NoDetail
			}
			return rules.KindOf(meaning.Logits, d, rules.Strong+1)
		}
	},
}
