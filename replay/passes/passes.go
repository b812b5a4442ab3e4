// Package passes finds the forward and backward passes of a training, the layers that
// a pass repeats, and what a pass that failed had yet to allocate.
//
//	list, err := passes.Of(classes)
//	for _, stack := range list[0].Repeats(classes) {
//		layers := list[0].Layers(classes, stack)
//	}
package passes

import (
	"fmt"
	"slices"
	"sort"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/timeline"
)

// Pass is a forward pass, with the backward pass that follows; in events.
type Pass struct {
	Saved []timeline.AllocationID // for its backward pass, in the order of their birth
	Start int                     // before the first of them is born
	// with which its backward pass begins; there is none: the number of events, or Start of the next
	Backward int
	End      int // with which that ends
}

// Spans are all spans of a phase.
func Spans(c *classify.Classification, phase classify.Phase) []classify.PhaseSpan {
	list := slices.Clone(c.Before)
	for i := range c.Steps {
		list = append(list, c.Steps[i].Phases...)
	}
	return slices.DeleteFunc(list, func(p classify.PhaseSpan) bool { return p.Phase != phase })
}

// Of finds the passes and what they save.
func Of(c *classify.Classification) ([]Pass, error) {
	t := c.Timeline
	backward := Spans(c, classify.Backward)
	var list []Pass
	last, step, alone := -1, int32(0), (*classify.Step)(nil)
	for i, category := range c.Category {
		id := timeline.AllocationID(i)
		born := t.BornAt(id)
		if category != classify.Activations || c.Phase[id] != classify.Forward || born < 0 {
			continue
		}
		n := sort.Search(len(backward), func(i int) bool { return backward[i].FirstEvent >= born })
		u := c.UntrainedAt(born)
		// a loop that only runs forward has no backward passes to part them
		if n != last || u != alone || c.Step[id] != step {
			end := t.Device.Events.Len()
			p := Pass{Start: born - 1, Backward: end, End: end}
			if n < len(backward) {
				p.Backward, p.End = backward[n].FirstEvent, backward[n].LastEvent
			}
			list = append(list, p)
			last, step, alone = n, c.Step[id], u
		}
		p := &list[len(list)-1]
		p.Saved = append(p.Saved, id)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no activations were found in the recording")
	}
	for i := range list[:len(list)-1] {
		if p, next := &list[i], &list[i+1]; p.Backward > next.Start {
			p.Backward, p.End = next.Start, next.Start // it has none
		}
	}
	return list, nil
}
