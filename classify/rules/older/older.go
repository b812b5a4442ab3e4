// Package older tells what the recording found there: blocks that are older than it, by
// their stacks, by how often their sizes recur and by what frees them.
//
// A rule goes beside OlderFreed, and into classify's registry.
package older

import (
	"maps"
	"math"
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/classify/rules/logits"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

var OlderByFrames = &rules.Rule{
	ID: "older-by-stack",
	Doc: `Older than the recording, but the final state kept the stack that made it: judged by what that stack
says, and by the phase in which it goes.`,
	Signal: meaning.ByLife,
	Born:   rules.Older,
	Needs:  []rules.Need{logits.Heads, rules.Retention},
	Begin: func(a *rules.Facts) rules.Says {
		heads, graphs := logits.Heads.Of(a), olderGraphs(a)
		return func(id timeline.AllocationID) rules.Claim {
			if a.Timeline.Stack(id) == 0 {
				return rules.Claim{}
			}
			return olderByStack(a, heads, graphs, id, a.Freed(id))
		}
	},
}

var OlderLasting = &rules.Rule{
	ID: "older-lasting",
	Doc: `Older than the recording, and there for good. A size that comes back as gradients belongs to as many
weights; the rest of its blocks is their optimizer state. Without any history, sizes that recur three or four times
each are weights with Adam's state.`,
	Signal: meaning.ByLife,
	Born:   rules.Older,
	Needs:  []rules.Need{Gradients, Settled},
	Begin: func(a *rules.Facts) rules.Says {
		lasting, settled := judgeLasting(a), Settled.Of(a)
		return func(id timeline.AllocationID) rules.Claim {
			if !settled.Lasts(a, id) {
				return rules.Claim{}
			}
			c := lasting[id]
			c.Last = true
			return c
		}
	},
}

var OlderFreed = &rules.Rule{
	ID: "older-freed",
	Doc: `Older than the recording, and judged by what frees it: a backward pass frees what was saved for it, an
optimizer's step or zero_grad gradients, or state if the step made its like; else it is a guess.`,
	Signal: meaning.ByLife,
	Born:   rules.Older,
	Needs:  []rules.Need{Gradients},
	Proven: 55,
	Begin: func(a *rules.Facts) rules.Says {
		gradients, replaced := Gradients.Of(a).GradientSize, replacedInStep(a)
		return func(id timeline.AllocationID) rules.Claim {
			n := a.Timeline.Requested(id)
			if replaced[id] {
				return rules.As(meaning.OptimizerState, rules.Likely)
			}
			switch a.PhaseAt(a.Freed(id)) {
			case meaning.Backward:
				return rules.As(meaning.Activations, rules.Likely)
			case meaning.Optimizer, meaning.ZeroGrad:
				if n <= phases.Scalar {
					return rules.As(meaning.Temporary, rules.Guess)
				}
				return rules.As(meaning.Gradients, rules.Plausible)
			case meaning.Forward, meaning.Data, meaning.Generate, meaning.OtherPhase:
				if gradients[n] > 0 && a.Trains {
					return rules.As(meaning.Gradients, rules.Guess)
				}
				return rules.As(meaning.Temporary, rules.Guess)
			}
			return rules.Claim{}
		}
	},
}

// olderByStack judges a block that is older than the trace by what its stack says, and
// by the event that frees it.
func olderByStack(a *rules.Facts, heads []bool, graphs map[snapshot.StackID]bool, id timeline.AllocationID, f int) rules.Claim {
	e, stays := a.Birth(id), f >= a.Last
	switch {
	case e.Marks&(frames.Loss|frames.LossGrad) != 0 && a.Timeline.Requested(id) > 64, heads[a.Timeline.Stack(id)]:
		return rules.As(meaning.Logits, rules.Likely)
	case e.Hint == meaning.HintOf(meaning.Forward) && stays && graphs[a.Timeline.Stack(id)]:
		return rules.As(meaning.Activations, rules.Guess)
	case e.Marks&frames.MatMul != 0 && e.Marks&(frames.Workspace|frames.Copying|frames.Engine) == 0 && e.Depth == 2 && stays:
		return rules.As(meaning.Logits, rules.Plausible)
	case e.Hint != 0:
		return olderOfPhase(a, e.Hint.Phase(), a.Timeline.Requested(id), f)
	case e.Marks&(frames.UserInner|frames.Named) == frames.UserInner|frames.Named:
		return rules.As(meaning.Weights, rules.Plausible)
	case e.Marks&frames.UserInner != 0: // or what the program keeps
		return rules.As(meaning.Inputs, rules.Guess)
	}
	return rules.Claim{}
}

// olderOfPhase is what a phase made before the trace, by the event that frees it.
func olderOfPhase(a *rules.Facts, made meaning.Phase, n int64, f int) rules.Claim {
	used := f < a.Last && a.PhaseAt(f) == meaning.Backward
	switch {
	case made == meaning.Setup:
		return rules.As(meaning.Weights, rules.Likely)
	case made == meaning.Data:
		return rules.As(meaning.Inputs, rules.Likely)
	case made == meaning.Optimizer && n > phases.Scalar:
		return rules.As(meaning.OptimizerState, rules.Likely)
	case made == meaning.Backward && !used:
		return rules.As(meaning.Gradients, rules.Likely)
	case made == meaning.Forward && used:
		return rules.As(meaning.Activations, rules.Likely)
	// kept by the program; without any history, saved as likely
	case made == meaning.Forward && f >= a.Last && a.Timeline.Older() < a.Timeline.Len():
		return rules.As(meaning.Temporary, rules.Guess)
	}
	return rules.Claim{}
}

// olderGraphs are the stacks of graphs that forward passes older than the trace
// left: what is there comes from many places in layers, which results don't, or
// is what later passes leave as parts of theirs, or of what an error cut short.
func olderGraphs(a *rules.Facts) map[snapshot.StackID]bool {
	retained := rules.Retention.Of(a).Retained
	const many = 8
	forward := func(id timeline.AllocationID) bool {
		return a.Outlives(id) && a.Birth(id).Hint == meaning.HintOf(meaning.Forward) && a.Timeline.Requested(id) > 64
	}
	places, layers := map[snapshot.StackID]bool{}, 0
	for id := range timeline.AllocationID(a.Timeline.Older()) {
		if stack := a.Timeline.Stack(id); forward(id) && !places[stack] {
			places[stack] = true
			if a.Birth(id).Depth > 1 {
				layers++
			}
		}
	}
	if layers >= many || len(places) == 0 {
		return places
	}
	later := map[snapshot.StackID]bool{}
	for id := timeline.AllocationID(a.Timeline.Older()); int(id) < a.Timeline.Len(); id++ {
		if stack, b := a.Timeline.Stack(id), a.Born(id); forward(id) && places[stack] && (retained[a.Run(b)] ||
			a.FailedBetween(b, a.Last)) {
			later[stack] = true
		}
	}
	return later
}

// Lasts reports whether a block that is older than the trace is there for good: to
// its end, or, where that is the program's own, until a backward pass is over
// that follows an optimizer's step, or after one until nothing is made any more.
// Gradients and what forward saves don't last so long.
func (s *Settlement) Lasts(a *rules.Facts, id timeline.AllocationID) bool {
	f := a.Freed(id)
	return f >= s.Settled || f > s.Made && !meaning.HintOf(a.PhaseAt(f)).Is(meaning.Backward, meaning.Optimizer,
		meaning.ZeroGrad)
}

// Settlement is when nothing changes any more.
type Settlement struct {
	Settled, Made int // events: from which blocks older than the trace last; the last that makes something
}

// Settled is when blocks older than the trace last.
var Settled = rules.Named("when older blocks last", settles)

// settles finds the event from which what is older lasts, and, where an optimizer
// steps, the last at which anything is made.
func settles(a *rules.Facts) *Settlement {
	s := &Settlement{a.Last, a.Last}
	stepped := false
	for i := range a.Runs {
		switch r := &a.Runs[i]; {
		case r.Phase == meaning.Optimizer:
			stepped = true
		case r.Phase == meaning.Backward && stepped:
			s.Settled = r.End
			return s
		}
	}
	if stepped {
		for s.Made--; s.Made > 0 && a.Events.Action[s.Made] != snapshot.Alloc; {
			s.Made--
		}
	}
	return s
}

// GradientIndex counts the gradients of steps by size.
type GradientIndex struct {
	GradientSize map[int64]int // those that one step makes, on average
	WholeStep    map[int64]int // those of a whole step where two in a row make the most; nil: there are none
}

// Gradients are those of a program's steps.
var Gradients = rules.Named("gradients of a step", gradientsPerStep)

// judgeLasting tells weights from optimizer state among the blocks that were there
// before the trace and stay: a size that comes back as gradients belongs to so
// many weights, and the rest of its blocks to their state. Weights were made
// first and lie lowest.
func judgeLasting(a *rules.Facts) map[timeline.AllocationID]rules.Claim {
	lasting := map[timeline.AllocationID]rules.Claim{}
	gradients, whole := Gradients.Of(a).GradientSize, Gradients.Of(a).WholeStep
	bySize, known := lastingBySize(a)
	bare := a.Last == 0 || !a.Trains && a.Loop >= a.Last
	if bare || a.Trains && !returning(gradients, bySize) { // gradients stay, or none is recorded
		if multiples(lasting, bySize); bare || len(lasting) > 0 {
			return lasting
		}
	}
	for n, ids := range bySize {
		x := lastingSize{n, len(ids), known[n], gradients[n], 0, whole[n]}
		if n%2 == 0 && x.gradients == 0 {
			x.half = gradients[n/2]
		}
		for k, id := range ids {
			lasting[id] = x.claim(k)
		}
	}
	return lasting
}

// lastingBySize are, by size, the blocks without a stack that stay, and how many weights stacks tell.
func lastingBySize(a *rules.Facts) (bySize map[int64][]timeline.AllocationID, known map[int64]int) {
	settled := Settled.Of(a)
	bySize, known = map[int64][]timeline.AllocationID{}, map[int64]int{}
	for i := range a.Timeline.Older() {
		id := timeline.AllocationID(i)
		switch n := a.Timeline.Requested(id); {
		case a.Timeline.Stack(id) != 0 && a.Birth(id).Hint == meaning.HintOf(meaning.Setup):
			known[n]++
		case a.Timeline.Stack(id) == 0 && settled.Lasts(a, id):
			bySize[n] = append(bySize[n], id)
		}
	}
	return bySize, known
}

// lastingSize is what is there of a size for good.
type lastingSize struct {
	bytes                  int64
	blocks, known          int // without a stack; weights by theirs
	gradients, half, whole int // of a step; of half the size where a step has none; of a whole step
}

// large is from how many bytes on a size is no bias': factors of moments have those.
const large = 64 << 10

// claim says what one of its blocks is, in the order of their births.
func (x *lastingSize) claim(k int) rules.Claim {
	g := x.gradients
	switch {
	case x.beyondSets():
		return rules.Claim{}
	case phases.CublasSize(x.bytes) && g == 0 && x.blocks <= 2:
		return rules.KindOf(meaning.Workspace, meaning.CuBLAS, rules.Plausible) // before torch 2.15 it stays
	case x.bytes <= phases.Scalar && g == 0:
		return rules.KindOf(meaning.OptimizerState, meaning.StepCounter, rules.Guess)
	case k < g-x.known:
		return rules.As(meaning.Weights, rules.Likely)
	case x.another() && k < x.blocks-2*x.whole:
		return rules.As(meaning.Weights, rules.Plausible)
	case g > 0 && x.known+x.blocks >= 2*g:
		return rules.As(meaning.OptimizerState, rules.Likely)
	case x.half > 0 && x.blocks >= 2*x.half:
		return rules.As(meaning.OptimizerState, rules.Plausible)
	}
	return rules.As(meaning.Weights, rules.Plausible)
}

// beyondSets reports whether they are more than weights, state, teachers and averages make: what passes leave, such as graphs of
// gradients.
func (x *lastingSize) beyondSets() bool {
	const sets = 16
	return x.bytes >= large && x.gradients > 0 && x.blocks > sets*max(x.gradients, x.whole)
}

// another reports whether a teacher, a reference or an average must be among them.
func (x *lastingSize) another() bool {
	return x.whole > 0 && x.bytes >= large && x.known+x.blocks > 3*x.whole
}

// returning reports whether a good part of some blocks is of sizes that steps make
// gradients of.
func returning(gradients map[int64]int, bySize map[int64][]timeline.AllocationID) bool {
	var bytes, all int64
	for n, ids := range bySize {
		all += n * int64(len(ids))
		if gradients[n] > 0 {
			bytes += n * int64(len(ids))
		}
	}
	return bytes*4 >= all
}

// gradientsPerStep counts by size the gradients that a step makes on average, and
// those of a whole step where two in a row make the most; another optimizer's turn
// makes others.
func gradientsPerStep(a *rules.Facts) *GradientIndex {
	total, whole := map[int64]int{}, map[int64]int(nil)
	each := map[int32]map[int64]int{}
	bytes := map[int32]int64{}
	for id := range timeline.AllocationID(a.Timeline.Len()) {
		if a.Phase[id] != meaning.Backward || a.Born(id) < 0 || !rules.OutlivesPass(a, id) ||
			a.Timeline.Requested(id) <= phases.Scalar {
			continue
		}
		n, step := a.Timeline.Requested(id), a.Step[id]
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
	return &GradientIndex{total, whole}
}

// multiples judges a final state without history by how often every size
// recurs: three or four times is a model with its Adam state, in the order in
// which they were made. Anything else could be anything.
func multiples(lasting map[timeline.AllocationID]rules.Claim, bySize map[int64][]timeline.AllocationID) {
	var total int64
	for n, ids := range bySize {
		total += n * int64(len(ids))
	}
	fewest, sizes := math.MaxInt, 0
	for n, ids := range bySize {
		if n*int64(len(ids)) >= total/500 && !phases.CublasSize(n) {
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
				lasting[id] = rules.As(meaning.Weights, rules.Guess)
			case k >= len(ids)-2*each:
				lasting[id] = rules.As(meaning.OptimizerState, rules.Guess)
			default:
				lasting[id] = rules.As(meaning.Gradients, rules.Guess)
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
				common = rules.Row(common, count)
				sizes++
			}
		}
		if sizes >= 4 && common == times && bytes*100 >= total*99 {
			return int(times)
		}
	}
	return 0
}

// replacedInStep finds what an optimizer's step frees right after it made its like, which stays: state that each step makes anew.
// Gradients go without one.
func replacedInStep(a *rules.Facts) map[timeline.AllocationID]bool {
	const near = 64 // events
	replaced, taken := map[timeline.AllocationID]bool{}, map[timeline.AllocationID]bool{}
	for id := range timeline.AllocationID(a.Timeline.Older()) {
		f, n := a.Freed(id), a.Timeline.Requested(id)
		if f < 0 || n <= phases.Scalar || a.PhaseAt(f) != meaning.Optimizer || f >= a.Last {
			continue
		}
		end := a.Runs[a.Run(f)].End
		for i := f - 1; i >= max(0, f-near) && a.Phases[i] == meaning.Optimizer; i-- {
			next := a.Timeline.Of[i]
			if a.Events.Action[i] == snapshot.Alloc && a.Events.Size[i] == n && a.Freed(next) >= end && !taken[next] {
				replaced[id], taken[next] = true, true
				break
			}
		}
	}
	return replaced
}
