// Package classify says what every allocation of a device is for: its
// category with a confidence and the signal that decided, the phase and the
// step in which it was made, and which lines leak.
//
//	t := timeline.New(s, &s.Devices[0])
//	c := classify.New(t, classify.Options{})
//	for id := range t.Len() {
//		fmt.Println(c.Category[id], c.Confidence[id], c.Signal[id], c.Phase[id], c.Step[id])
//	}
//
// It goes in three passes, each linear in the events: phases, runs and steps of the
// program (package phases); facts that several rules ask, worked out when they do
// (rules.Fact); and the claims of rules, each with its papers below package rules.
// registry.go lists them in the order in which those of one signal are asked, and join.go
// is the one place where claims meet: the surest decides, one that contradicts it takes
// from its confidence, one that agrees adds to it. Rules of siblings look last at what
// others turned out to be. Leaks and names have packages of their own.
package classify

import (
	"slices"
	"sync"

	"github.com/vramscope/vramscope/classify/leaks"
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/names"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/classify/rules/kvcache"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Options are facts from outside the recording.
type Options struct {
	Labels   []meaning.Label
	Holders  []Holder       // the variables that hold what no label names, where recorded
	Tensors  []names.Tensor // the model's, in the order in which it lists them
	Without  []string       // ids of rules, and of signals of phases, that aren't asked
	Evidence *Evidence      // of the device, used up by New; nil: New gathers it
}

// Classification says what every allocation of a timeline is; its slices are
// parallel to the timeline's allocations.
type Classification struct {
	*meaning.Result

	holders []Holder
	leaks   struct {
		sync.Once
		found []leaks.Leak
	}
}

// Leaks are found when they are first asked for.
func (c *Classification) Leaks() []leaks.Leak {
	c.leaks.Do(func() { c.leaks.found = leaks.Find(c.Result, frames.New(c.Timeline.Snapshot), c.holders...) })
	return c.leaks.found
}

// Evidence is what the stacks of a device's events say by themselves, and later what
// follows from births and deaths.
type Evidence struct {
	stacks *phases.StackFacts
	facts  *rules.Facts
	claims rules.Claims
}

// Gather looks at a device's stacks. It needs no timeline: both may be made at
// the same time.
func Gather(s *snapshot.Snapshot, d *snapshot.Device) *Evidence {
	return &Evidence{stacks: phases.Gather(s, d)}
}

// Follow looks at births and deaths, too: phases and steps, without some of the signals
// that tell them, and what rules ask for that need no labels. The timeline may be one that was only begun.
func (g *Evidence) Follow(t *timeline.Timeline, without ...string) {
	g.facts = kvcache.Look(phases.Follow(t, g.stacks, without...))
	g.claims = make(rules.Claims, len(registry))
	g.claims.Begin(g.facts, registry, false)
}

// New classifies the allocations of a timeline.
func New(t *timeline.Timeline, o Options) *Classification {
	g := o.Evidence
	if g == nil || slices.ContainsFunc(o.Without, phases.Known) { // it may have been followed with them
		g = Gather(t.Snapshot, t.Device)
	}
	if g.facts == nil {
		g.Follow(t, o.Without...)
	}
	decide(g.facts, g.claims, o)
	return &Classification{Result: g.facts.Result, holders: o.Holders}
}
