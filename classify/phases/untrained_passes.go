package phases

import (
	"slices"
	"sort"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/snapshot"
)

// UntrainedPasses finds validations and the like.
var UntrainedPasses = &Signal{
	ID: "untrained-passes",
	Doc: `Three or more forward passes follow each other without a backward pass in a program that trains, as in a validation
or a sampler. They are cut where what happens once in each comes back; one that makes far less than a pass that is trained on
is a layer. Where later backward passes free most of what they made they are micro-batches of a pipeline. Where what a pass ends
with takes the place of what it began with, and nothing is loaded, they generate, as a diffusion model's sampler does.`,
	Tells: Passes,
	Needs: []Need{Training},
	Find:  func(f *facts) found { return untrained{f}.find() },
}

// untrainedPasses is how many passes at least must follow each other.
const untrainedPasses = 3

type untrained struct{ *facts }

// find finds the stretches in which forward passes follow each other and no backward pass does, and cuts them into their
// iterations. A pass that is trained on tells how much one makes: less is a layer.
func (a untrained) find() (x found) {
	stretches := a.betweenUpdates()
	var made []int // by trained pass: allocations
	for _, s := range stretches {
		if s.trained {
			made = append(made, s.allocs)
		}
	}
	if len(made) == 0 {
		return x
	}
	slices.Sort(made)
	usual := made[len(made)/2]
	for _, s := range stretches {
		if s.trained { // the last pass is
			for n := min(usual, s.allocs); n > 0; n-- {
				for s.end--; a.Events.Action[s.end] != snapshot.Alloc; s.end-- {
				}
				s.allocs--
			}
		}
		if first := a.sampler(s, usual); first >= 0 {
			x.spans.add(first, s.end, meaning.Generate)
		}
		if s.allocs < usual*untrainedPasses/2 {
			continue
		}
		if i := sort.SearchInts(a.OOMs, s.first); i < len(a.OOMs) { // what the error unwinds is no pass
			s.end = min(s.end, a.OOMs[i]+1)
		}
		starts := a.AnchoredIn(s.first, s.end, &Layers{})
		if len(starts) < untrainedPasses || s.allocs*5 < usual*2*len(starts) {
			continue
		}
		bounds := append(starts, s.end)
		var steps []meaning.Step
		for n, first := range starts {
			steps = append(steps, a.step(n, first, bounds[n+1]))
		}
		if a.inFlight(s) {
			x.waiting = append(x.waiting, steps)
		} else {
			x.untrained = append(x.untrained, steps)
		}
	}
	return x
}

// inFlight reports whether backward passes come to what a stretch made later: of the micro-batches in a pipeline, several are
// on their way at a time.
func (a untrained) inFlight(s stretch) bool {
	kept, used := 0, 0
	for i := range a.allocs(s.first, s.end) {
		id := a.Timeline.Of[i]
		if f := a.Freed(id); f >= s.end && a.Timeline.Requested(id) > Scalar {
			kept, used = kept+1, used+AsInt(a.PhaseAt(f) == meaning.Backward)
		}
	}
	return used*2 > kept && used*4 >= s.allocs
}

// stretch is a part of the loop without a backward pass or an optimizer's step.
type stretch struct {
	first, end int // events
	allocs     int
	trained    bool // a backward pass follows
}

// betweenUpdates are the stretches of the loop that run forward.
func (a untrained) betweenUpdates() (out []stretch) {
	open := false
	for _, r := range a.Runs {
		if r.End <= a.Loop {
			continue
		}
		switch r.Phase {
		case meaning.ZeroGrad: // also between a forward and its backward pass
			continue
		case meaning.Backward, meaning.Optimizer:
			if open {
				out[len(out)-1].trained = r.Phase == meaning.Backward
			}
			open = false
			continue
		}
		if !open {
			out = append(out, stretch{first: max(r.First, a.Loop)})
			open = true
		}
		s := &out[len(out)-1]
		s.end = r.End
		s.allocs += a.made(max(r.First, a.Loop), r.End)
	}
	return out
}

// UntrainedEnd is the last event of the pass that an event lies in where that isn't trained on, else the last of all.
func (a *Program) UntrainedEnd(event int) int {
	if s := a.UntrainedAt(event); s != nil {
		return s.LastEvent
	}
	return a.Last
}
