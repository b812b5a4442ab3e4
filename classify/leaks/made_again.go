package leaks

import (
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// model is a set of weights that a program made together, and what was trained with it.
type model struct {
	weights []timeline.AllocationID
	first   uint32 // event
	bytes   int64
	own     []timeline.AllocationID // gradients and state that are made before the next model
	ownSize int64
}

// smallestWeight is the size up to which weights tell nothing about a model.
const smallestWeight = 512 // bytes

// modelsAgain finds models that the same lines made again while the earlier ones, and what these were trained with,
// stay though nothing trains them any more: a notebook does whose cell runs again.
func modelsAgain(c *meaning.Result, view *frames.View) []Leak {
	if len(c.Steps) < 2 {
		return nil
	}
	l := loopOf(c, view, c.Steps)
	models := l.models()
	if len(models) < 2 || !trainedApart(l, models) {
		return nil
	}
	var kept []survivor
	var bytes int64
	for _, m := range models[:len(models)-1] {
		if 2*m.ownSize < m.bytes { // a copy, as averages and the best ones so far are
			return nil
		}
		for _, id := range slices.Concat(m.weights, m.own) {
			kept = append(kept, survivor{id, 0, int32(l.n)})
		}
		bytes += m.bytes + m.ownSize
	}
	slices.SortFunc(kept, func(a, b survivor) int { return int(a.id) - int(b.id) })
	if bytes < 16<<20 || bytes*100 < smallPart*l.peakAllocated() {
		return nil
	}
	leak := Leak{Kind: GrowingList, Again: len(models), Steps: len(models), BytesPerStep: bytes / int64(len(models)-1),
		TotalBytes: bytes, Confidence: 0.9}
	l.describe(&leak, kept)
	leak.Site, leak.stack = l.keeper(GrowingList, pace{alive: []survivor{{models[0].weights[0], 0, int32(l.n)}}})
	return l.judged([]Leak{leak})
}

// models are the sets of weights that are still there and as the first one: the same sizes in the same order, by the same
// lines. A pass lies between the births of one set and the next.
func (l *loop) models() (alike []model) {
	all := setsOf(l)
	for _, m := range all {
		if slices.EqualFunc(all[0].weights, m.weights, func(a, b timeline.AllocationID) bool {
			return l.t.Requested(a) == l.t.Requested(b) && sameLines(l, l.t.Stack(a), l.t.Stack(b))
		}) {
			alike = append(alike, m)
		}
	}
	if len(alike) < len(all) {
		return nil // other sets lie between them, whose training can't be told apart
	}
	return alike
}

// setsOf are the sets of weights that are still there, each with what it was trained with.
func setsOf(l *loop) (all []model) {
	worked := false
	for i, category := range l.c.Category {
		id := timeline.AllocationID(i)
		kept := l.died(id) == timeline.Never
		switch {
		case l.t.Born[id] == timeline.Never:
		case category == meaning.Weights && kept && l.t.Requested(id) > smallestWeight && l.t.Stack(id) != 0:
			if len(all) == 0 || worked {
				all = append(all, model{first: l.t.Born[id]})
				worked = false
			}
			m := &all[len(all)-1]
			m.weights, m.bytes = append(m.weights, id), m.bytes+l.bytes(id)
		case len(all) == 0:
		case (category == meaning.Gradients || category == meaning.OptimizerState) && kept:
			m := &all[len(all)-1]
			m.own, m.ownSize = append(m.own, id), m.ownSize+l.bytes(id)
		}
		worked = worked || slices.Contains([]meaning.Phase{meaning.Backward, meaning.Forward, meaning.Optimizer}, l.c.Phase[i])
	}
	return all
}

// sameLines reports whether two stacks are of the same lines of Python; of a notebook's cells the functions are enough.
func sameLines(l *loop, x, y snapshot.StackID) bool {
	python := func(s snapshot.StackID) []snapshot.FrameID { return pythonFrames(l.view, l.t.Snapshot, s) }
	return x == y || slices.EqualFunc(python(x), python(y), func(f, g snapshot.FrameID) bool {
		a, b := l.view.Line(f), l.view.Line(g)
		return a == b || a.Function == b.Function && frames.Notebook(a.File) && frames.Notebook(b.File)
	})
}

// trainedApart reports whether no step after the last model was made had gradients of more than one: layers that are added
// to a model stay part of what is trained.
func trainedApart(l *loop, models []model) bool {
	last := models[len(models)-1]
	made := make([]int64, l.n+1)
	for id, step := range l.all() {
		if l.c.Category[id] == meaning.Gradients && l.t.Born[id] > last.first {
			made[step] += l.t.Requested(id)
		}
	}
	return 2*slices.Max(made) <= 3*last.bytes
}
