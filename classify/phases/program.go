package phases

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/internal/together"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Follow finds the phases, runs and steps of a program from its births and
// deaths. The timeline may be one that was only begun.
func Follow(t *timeline.Timeline, v *StackFacts) *Program {
	n := t.Len()
	c := &meaning.Result{
		Timeline: t,
		Category: pages.Make[meaning.Category](n), Detail: pages.Make[meaning.Detail](n), Confidence: pages.Make[uint8](n),
		Signal: pages.Make[meaning.Signal](n), Rule: pages.Make[uint8](n), Phase: pages.Make[meaning.Phase](n),
		Step: pages.Make[int32](n),
	}
	a := &Program{Result: c, StackFacts: v, Timeline: t, Events: &t.Device.Events, Last: t.Device.Events.Len()}
	for i, action := range a.Events.Action {
		switch action {
		case snapshot.OOM:
			a.OOMs = append(a.OOMs, i)
		case snapshot.Alloc:
			a.Stop = i + 1
		}
	}
	phaseFinder{a, a.hints}.findPhases()
	a.findRuns()
	together.Do(a.AssignPhases, a.findSteps, untrainedFinder{a}.find)
	return a
}
