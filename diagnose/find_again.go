package diagnose

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

// madeAgain finds models and optimizers that a program made again while the
// earlier ones were still there: a notebook does whose cell runs again.
func (e *examination) madeAgain(dev *report.Device, f *facts) []draft {
	if d, ok := e.modelsAgain(dev, f); ok {
		return []draft{d}
	}
	if d, ok := e.optimizersAgain(dev, f); ok {
		return []draft{d}
	}
	if d, ok := e.copiesAgain(dev, f); ok {
		return []draft{d}
	}
	return nil
}

// isAgain tells whether that is what a finding is about.
func isAgain(f *report.Finding) bool {
	return strings.HasPrefix(f.Title, modelAgain) || strings.HasPrefix(f.Title, optimizerAgain) ||
		strings.HasPrefix(f.Title, copiesAgain)
}

// How the findings' titles begin.
const (
	modelAgain     = "A model was made "
	optimizerAgain = "An optimizer was made "
	copiesAgain    = "Copies of the model pile up"
)

// generation is what the same lines of a program made in one go.
type generation struct {
	ids   []timeline.AllocationID
	first int // event
	bytes int64
}

// modelsAgain looks for weights that the lines which made the first ones made
// again, after work had been done with those.
func (e *examination) modelsAgain(dev *report.Device, f *facts) (draft, bool) {
	models := e.alike(e.models(f))
	if len(models) < 2 {
		return draft{}, false
	}
	// What the earlier ones were trained with goes with them.
	var held [classify.NumCategories]int64
	own := make([]int64, len(models)) // by model: gradients and state
	d := draft{Finding: report.Finding{ID: "weights_twice", Severity: report.Warning, Confidence: 0.9},
		without: "without the earlier ones,"}
	last := models[len(models)-1].first
	weights := map[timeline.AllocationID]bool{}
	for _, m := range models {
		for _, id := range m.ids {
			weights[id] = true
		}
	}
	for i, c := range e.classes.Category {
		id := timeline.AllocationID(i)
		born := e.t.Born[i]
		if born == timeline.Never || int(born) < models[0].first || int(born) >= last ||
			!e.t.AliveAt(id, e.t.Peaks.Allocated.Event) {
			continue
		}
		switch {
		case c == classify.Gradients, c == classify.OptimizerState, weights[id]:
		default:
			continue
		}
		s := e.lifeOf(id)
		next := sort.Search(len(models), func(k int) bool { return models[k].first > int(born) })
		s.from = max(s.from, models[next].first)
		held[c] += s.bytes
		if c != classify.Weights {
			own[next-1] += s.bytes
		}
		d.spells = append(d.spells, s)
		e.again = append(e.again, id)
	}
	bytes := held[classify.Weights] + held[classify.Gradients] + held[classify.OptimizerState]
	// Without stacks these may be copies, as the best ones and averages are: then
	// the first has no gradients or state, or the last gets none.
	before, after := e.stateMade(models[0].first, last), e.stateMade(last, math.MaxInt)
	copied := e.t.Stack(models[0].ids[0]) == 0 && (slices.Min(own[:len(models)-1]) < models[0].bytes/2 ||
		2*after*int64(len(models)-1) < before)
	if copied || share(bytes, dev.AtPeak.AllocatedBytes) < 2 || bytes < 16<<20 {
		e.again = nil
		return draft{}, false
	}
	d.Title = fmt.Sprintf(modelAgain+"%s, and %s still there: %s", times(len(models)), earlier(len(models)-1)+
		isOrAre(len(models)-1), units.Bytes(bytes))
	if line := e.coveringLine(e.byStack(models[0].ids)); line.File != "" {
		d.Evidence = append(d.Evidence, "made at "+lineText(line))
	}
	d.Evidence = append(d.Evidence, fmt.Sprintf("held by the earlier: weights %s, gradients %s, optimizer state %s",
		units.Bytes(held[classify.Weights]), units.Bytes(held[classify.Gradients]), units.Bytes(held[classify.OptimizerState])))
	d.Fix = ptr("Let go of a model and its optimizer before the next ones are made, or move the model to the host. What holds " +
		"them may be a list, a scheduler or, in a notebook, a variable, a cell's output (Out, _) or the traceback of an error")
	d.Code = "del model, optimizer\ngc.collect()\ntorch.cuda.empty_cache()"
	return d, true
}

// models are the weights that are there at the peak, by what a model does between
// the births of one set and the next.
func (e *examination) models(f *facts) []generation {
	var work []int // first events
	for _, s := range f.spans {
		switch s.Phase {
		case classify.Forward, classify.Backward, classify.Optimizer, classify.Generate:
			work = append(work, s.FirstEvent)
		}
	}
	return e.generations(classify.Weights, func(last, born int) bool {
		return sort.SearchInts(work, last) < sort.SearchInts(work, born)
	})
}

// copiesAgain looks for copies of a model that one line makes again and again and
// that all stay, as when the best ones so far are put into a list.
func (e *examination) copiesAgain(dev *report.Device, f *facts) (draft, bool) {
	const several = 3 // a copy takes the place of another when both are there
	models := e.models(f)
	if len(models) <= several || e.t.Stack(models[1].ids[0]) == 0 {
		return draft{}, false
	}
	model, copies := models[0], e.alike(models[1:])
	if len(copies) < several || !e.sameSizes(model.ids, copies[0].ids) {
		return draft{}, false
	}
	d := draft{Finding: report.Finding{ID: classify.GrowingList, Severity: report.Warning, Confidence: 0.9},
		without: "with the last copy alone,"}
	bytes := e.butLast(&d, copies)
	if share(bytes, dev.AtPeak.AllocatedBytes) < 2 || bytes < 16<<20 {
		e.again = nil
		return draft{}, false
	}
	d.Title = fmt.Sprintf(copiesAgain+": %d were made, and %s are still there: %s", len(copies), earlier(len(copies)-1),
		units.Bytes(bytes))
	if line := e.coveringLine(e.byStack(copies[0].ids)); line.File != "" {
		d.Evidence = append(d.Evidence, "made at "+lineText(line))
	}
	d.Evidence = append(d.Evidence, fmt.Sprintf("%s in each, of the sizes that the model's weights have",
		units.Plural(len(copies[0].ids), "block")))
	d.Fix = ptr("Keep the best one only, and on the host: what holds the earlier ones is a list, a dict or a variable of the " +
		"loop")
	d.Code = "best = {k: v.to(\"cpu\", copy=True) for k, v in model.state_dict().items()}"
	return d, true
}

// sameSizes tells whether two sets of weights have the same sizes, in any order.
func (e *examination) sameSizes(a, b []timeline.AllocationID) bool {
	sizes := func(ids []timeline.AllocationID) []int64 {
		out := make([]int64, len(ids))
		for i, id := range ids {
			out[i] = e.t.Requested(id)
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(sizes(a), sizes(b))
}

// stateMade is the bytes of all state that optimizers made from an event on, up
// to another.
func (e *examination) stateMade(from, to int) (bytes int64) {
	for i, c := range e.classes.Category {
		if born := e.t.Born[i]; c == classify.OptimizerState && born != timeline.Never && from <= int(born) && int(born) < to {
			bytes += e.t.Allocated[i]
		}
	}
	return bytes
}

// optimizersAgain looks for the state of optimizers that were made anew for
// weights that have some already.
func (e *examination) optimizersAgain(dev *report.Device, f *facts) (draft, bool) {
	var steps []int // first events of the optimizers' steps
	for _, s := range f.spans {
		if s.Phase == classify.Optimizer {
			steps = append(steps, s.FirstEvent)
		}
	}
	// A step that makes none lies between: LBFGS adds to its history in each.
	states := e.generations(classify.OptimizerState, func(last, born int) bool {
		return sort.SearchInts(steps, last+1)+1 < sort.SearchInts(steps, born+1)
	})
	if states = e.alike(states); len(states) < 2 || e.t.Stack(states[0].ids[0]) == 0 || !e.sameGradients(states) {
		return draft{}, false
	}
	d := draft{Finding: report.Finding{ID: classify.GrowingList, Severity: report.Warning, Confidence: 0.9},
		without: "without the earlier ones,"}
	bytes := e.butLast(&d, states)
	if share(bytes, dev.AtPeak.AllocatedBytes) < 2 || bytes < 16<<20 {
		e.again = nil
		return draft{}, false
	}
	d.Title = fmt.Sprintf(optimizerAgain+"%s, and the state of %s is still there: %s", times(len(states)), earlier(len(states)-1),
		units.Bytes(bytes))
	if line := e.coveringLine(e.byStack(states[0].ids)); line.File != "" {
		d.Evidence = append(d.Evidence, "stepped at "+lineText(line))
	}
	d.Evidence = append(d.Evidence, fmt.Sprintf("%s of state for the same weights, each made in one step",
		units.Plural(len(states), "set")))
	d.Fix = ptr("Keep one optimizer and change its settings, or let go of the old one and of all that refers to it, such as " +
		"its learning-rate scheduler, before a new one is made")
	d.Code = "for group in optimizer.param_groups:\n    group[\"lr\"] = lr"
	return d, true
}

// butLast notes that all generations but the last could go as soon as the next is
// made, and gives what they take, in bytes.
func (e *examination) butLast(d *draft, all []generation) (bytes int64) {
	for k, g := range all[:len(all)-1] {
		bytes += g.bytes
		for _, id := range g.ids {
			s := e.lifeOf(id)
			s.from = max(s.from, all[k+1].first)
			d.spells = append(d.spells, s)
			e.again = append(e.again, id)
		}
	}
	return bytes
}

// generations cuts what is alive of a category at the peak into what was made
// in one go; apart tells whether two births, one after the other, were not.
func (e *examination) generations(category classify.Category, apart func(last, born int) bool) (out []generation) {
	last := 0
	for i, c := range e.classes.Category {
		id := timeline.AllocationID(i)
		if c != category || e.t.Born[i] == timeline.Never || e.t.Requested(id) <= smallWeight ||
			!e.t.AliveAt(id, e.t.Peaks.Allocated.Event) {
			continue
		}
		born := int(e.t.Born[i])
		if len(out) == 0 || apart(last, born) {
			out = append(out, generation{first: born})
		}
		g := &out[len(out)-1]
		g.ids, g.bytes, last = append(g.ids, id), g.bytes+e.t.Allocated[i], born
	}
	return out
}

// alike leaves those generations that are as the first one: the same sizes in
// the same order, made by the same lines.
func (e *examination) alike(all []generation) (out []generation) {
	for _, g := range all {
		if slices.EqualFunc(all[0].ids, g.ids, func(a, b timeline.AllocationID) bool {
			return e.t.Stack(a) == e.t.Stack(b) && e.t.Requested(a) == e.t.Requested(b)
		}) {
			out = append(out, g)
		}
	}
	return out
}

// sameGradients tells whether as many gradients were made in the steps of all
// generations: more layers that are trained bring their own state.
func (e *examination) sameGradients(all []generation) bool {
	made := map[int32]int64{}
	for i, c := range e.classes.Category {
		if c == classify.Gradients {
			made[e.classes.Step[i]] += e.t.Requested(timeline.AllocationID(i))
		}
	}
	first := made[e.classes.Step[all[0].ids[0]]]
	for _, g := range all[1:] {
		if made[e.classes.Step[g.ids[0]]] != first {
			return false
		}
	}
	return true
}

// earlier names those before the last.
func earlier(n int) string {
	if n == 1 {
		return "the first"
	}
	return fmt.Sprintf("the earlier %d", n)
}

func isOrAre(n int) string {
	if n == 1 {
		return " is"
	}
	return " are"
}
