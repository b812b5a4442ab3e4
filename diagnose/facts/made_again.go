package facts

import (
	"math"
	"slices"
	"sort"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Generation is what the same lines of a program made together.
type Generation struct {
	IDs   []timeline.AllocationID
	first int // event
	bytes int64
}

// Again is what a program made again while the earlier ones were still there: a
// notebook does whose cell runs again.
type Again struct {
	Model, Optimizer bool // which it is; else copies of a model
	Made             []Generation
	IDs              []timeline.AllocationID // of the earlier ones and what they were trained with, in order
	Spells           []Spell                 // from when the next is made
	Held             [classify.NumCategories]int64
}

// Allocations are those of the earlier ones, none where nothing was made again.
func (x *Again) Allocations() []timeline.AllocationID {
	if x == nil {
		return nil
	}
	return x.IDs
}

// Bytes is what all of them take.
func (x *Again) Bytes() (sum int64) {
	for _, n := range x.Held {
		sum += n
	}
	return sum
}

// MadeAgain are models, optimizers or copies of a model; nil for none.
var MadeAgain = Named("what was made again", func(p *Pass) *Again {
	for _, look := range []func(*Pass) *Again{modelsAgain, optimizersAgain, copiesAgain} {
		if x := look(p); x != nil && Share(x.Bytes(), p.Dev.AtPeak.AllocatedBytes) >= 2 && x.Bytes() >= 16<<20 {
			return x
		}
	}
	return nil
})

// modelsAgain looks for weights that the lines which made the first ones made
// again, after work had been done with those.
func modelsAgain(p *Pass) *Again {
	models := p.alike(p.models())
	if len(models) < 2 {
		return nil
	}
	x := &Again{Model: true, Made: models}
	own := p.heldByEarlier(x)
	// Without stacks, or by other cells, these may be copies, as the best ones and averages are: then
	// the first has no gradients or state, or the last gets none.
	last := models[len(models)-1].first
	before, after := p.stateMade(models[0].first, last), p.stateMade(last, math.MaxInt)
	lines := p.python(p.T.Stack(models[0].IDs[0]))
	same := lines != nil && slices.Equal(lines, p.python(p.T.Stack(models[len(models)-1].IDs[0])))
	if !same && (slices.Min(own[:len(models)-1]) < models[0].bytes/2 || 2*after*int64(len(models)-1) < before) {
		return nil
	}
	return x
}

// heldByEarlier notes the weights of the earlier models and what these were trained
// with, which goes with them, and gives the bytes of the latter by model.
func (p *Pass) heldByEarlier(x *Again) (own []int64) {
	models := x.Made
	own = make([]int64, len(models))
	last := models[len(models)-1].first
	weights := map[timeline.AllocationID]bool{}
	for _, m := range models {
		for _, id := range m.IDs {
			weights[id] = true
		}
	}
	for i, c := range p.Classes.Category {
		id := timeline.AllocationID(i)
		born := p.T.Born[i]
		if born == timeline.Never || int(born) < models[0].first || int(born) >= last ||
			!p.T.AliveAt(id, p.T.Peaks.Allocated.Event) || c != classify.Gradients && c != classify.OptimizerState &&
			!weights[id] {
			continue
		}
		s := p.LifeOf(id)
		next := sort.Search(len(models), func(k int) bool { return models[k].first > int(born) })
		s.From = max(s.From, models[next].first)
		if c != classify.Weights {
			own[next-1] += s.Bytes
		}
		x.Held[c] += s.Bytes
		x.Spells = append(x.Spells, s)
		x.IDs = append(x.IDs, id)
	}
	return own
}

// optimizersAgain looks for the state of optimizers that were made anew for
// weights that have some already.
func optimizersAgain(p *Pass) *Again {
	var steps []int // first events of the optimizers' steps
	for _, s := range Phases.Of(p).Spans {
		if s.Phase == classify.Optimizer {
			steps = append(steps, s.FirstEvent)
		}
	}
	// A step that makes none lies between: LBFGS adds to its history in each.
	states := p.generations(classify.OptimizerState, func(last, born int) bool {
		return sort.SearchInts(steps, last+1)+1 < sort.SearchInts(steps, born+1)
	})
	if states = p.alike(states); len(states) < 2 || p.T.Stack(states[0].IDs[0]) == 0 || !p.sameGradients(states) {
		return nil
	}
	return p.butLast(&Again{Optimizer: true, Made: states})
}

// copiesAgain looks for copies of a model that one line makes again and again and
// that all stay, as when the best ones so far are put into a list.
func copiesAgain(p *Pass) *Again {
	const several = 3 // a copy takes the place of another when both are there
	models := p.models()
	if len(models) <= several || p.T.Stack(models[1].IDs[0]) == 0 {
		return nil
	}
	model, copies := models[0], p.alike(models[1:])
	if len(copies) < several || !p.sameSizes(model.IDs, copies[0].IDs) {
		return nil
	}
	return p.butLast(&Again{Made: copies})
}

// butLast notes that all generations but the last could go as soon as the next is
// made.
func (p *Pass) butLast(x *Again) *Again {
	for k, g := range x.Made[:len(x.Made)-1] {
		for _, id := range g.IDs {
			s := p.LifeOf(id)
			x.Held[p.Classes.Category[id]] += s.Bytes
			s.From = max(s.From, x.Made[k+1].first)
			x.Spells = append(x.Spells, s)
			x.IDs = append(x.IDs, id)
		}
	}
	return x
}

// models are the weights that are there at the peak, by what a model does between
// the births of one set and the next.
func (p *Pass) models() []Generation {
	var work []int // first events
	for _, s := range Phases.Of(p).Spans {
		switch s.Phase {
		case classify.Forward, classify.Backward, classify.Optimizer, classify.Generate:
			work = append(work, s.FirstEvent)
		}
	}
	return p.generations(classify.Weights, func(last, born int) bool {
		return sort.SearchInts(work, last) < sort.SearchInts(work, born)
	})
}

// sameSizes reports whether two sets of weights have the same sizes, in any order.
func (p *Pass) sameSizes(a, b []timeline.AllocationID) bool {
	sizes := func(ids []timeline.AllocationID) []int64 {
		out := make([]int64, len(ids))
		for i, id := range ids {
			out[i] = p.T.Requested(id)
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(sizes(a), sizes(b))
}

// stateMade is the bytes of all state that optimizers made from an event on, up
// to another.
func (p *Pass) stateMade(from, to int) (bytes int64) {
	for id := range p.Each(classify.OptimizerState) {
		if born := p.T.Born[id]; born != timeline.Never && from <= int(born) && int(born) < to {
			bytes += p.T.Allocated[id]
		}
	}
	return bytes
}

// generations cuts what is alive of a category at the peak into what was made
// together; apart reports whether two births, one after the other, were not.
func (p *Pass) generations(category classify.Category, apart func(last, born int) bool) (out []Generation) {
	last := 0
	for id := range p.Each(category) {
		if p.T.Born[id] == timeline.Never || p.T.Requested(id) <= SmallWeight || !p.T.AliveAt(id, p.T.Peaks.Allocated.Event) {
			continue
		}
		born := int(p.T.Born[id])
		if len(out) == 0 || apart(last, born) {
			out = append(out, Generation{first: born})
		}
		g := &out[len(out)-1]
		g.IDs, g.bytes, last = append(g.IDs, id), g.bytes+p.T.Allocated[id], born
	}
	return out
}

// alike leaves those generations that are as the first one: the same sizes in
// the same order, made by the same lines.
func (p *Pass) alike(all []Generation) (out []Generation) {
	for _, g := range all {
		if slices.EqualFunc(all[0].IDs, g.IDs, func(a, b timeline.AllocationID) bool {
			return p.T.Requested(a) == p.T.Requested(b) && p.sameLines(p.T.Stack(a), p.T.Stack(b))
		}) {
			out = append(out, g)
		}
	}
	return out
}

// sameLines reports whether two stacks are of the same lines of Python; of a notebook's cells the functions are enough.
func (p *Pass) sameLines(a, b snapshot.StackID) bool {
	return slices.EqualFunc(p.python(a), p.python(b), func(x, y frames.Line) bool {
		return x == y || x.Function == y.Function && frames.Notebook(x.File) && frames.Notebook(y.File)
	})
}

// python are a stack's lines of Python: those of the interpreter change as it comes to know the code.
func (p *Pass) python(id snapshot.StackID) (lines []frames.Line) {
	for _, f := range p.T.Snapshot.Stack(id) {
		if p.View.Language(f) == frames.Python {
			lines = append(lines, p.View.Line(f))
		}
	}
	return lines
}

// sameGradients reports whether as many gradients were made in the steps of all
// generations: more layers that are trained bring their own state. State that is made in
// pieces before there is any gradient, or for a small part of them, is one optimizer's.
func (p *Pass) sameGradients(all []Generation) bool {
	made := map[int32]int64{}
	for id := range p.Each(classify.Gradients) {
		made[p.Classes.Step[id]] += p.T.Requested(id)
	}
	const least = 4 // moments in 8 bits take half of gradients in 32
	first := made[p.Classes.Step[all[0].IDs[0]]]
	if first == 0 || least*all[0].bytes < first {
		return false
	}
	for _, g := range all[1:] {
		if made[p.Classes.Step[g.IDs[0]]] != first {
			return false
		}
	}
	return true
}

// SmallWeight is the size up to which weights tell nothing about a model.
const SmallWeight = 512 // bytes
