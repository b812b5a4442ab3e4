package classify

import (
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/internal/together"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Follow finds the phases, runs and steps of a program from its births and
// deaths. The timeline may be one that was only begun.
func followProgram(t *timeline.Timeline, v *StackFacts) *Program {
	n := t.Len()
	c := &Result{
		Timeline: t,
		Category: pages.Make[Category](n), Detail: pages.Make[Detail](n), Confidence: pages.Make[uint8](n),
		Signal: pages.Make[Signal](n), Rule: pages.Make[uint8](n), Phase: pages.Make[Phase](n), Step: pages.Make[int32](n),
	}
	a := &Program{Result: c, StackFacts: v, t: t, events: &t.Device.Events, last: t.Device.Events.Len()}
	for i, action := range a.events.Action {
		switch action {
		case snapshot.OOM:
			a.ooms = append(a.ooms, i)
		case snapshot.Alloc:
			a.stop = i + 1
		}
	}
	a.findPhases()
	a.findRuns()
	together.Do(a.assignPhases, a.findSteps, a.findUntrained)
	return a
}
