// Package phased makes programs for tests of rules, told event by event with the phase of each.
package phased

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Program is what was told so far.
type Program struct {
	events snapshot.Events
	phases []meaning.Phase
	phase  meaning.Phase
	loop   int
	step   int32
	steps  []int32             // by event
	marks  []phases.StackMarks // by stack
	stack  snapshot.StackID
}

// In begins a phase.
func (p *Program) In(phase meaning.Phase) {
	if p.phase = phase; phase == meaning.Setup {
		p.loop = len(p.phases)
	}
}

// Step begins the next step.
func (p *Program) Step() { p.step++ }

// By says what the stacks of the blocks to come show, in a program that has some.
func (p *Program) By(marks frames.Marks) {
	if len(p.marks) == 0 {
		p.marks = append(p.marks, phases.StackMarks{})
	}
	p.marks = append(p.marks, phases.StackMarks{Marks: marks})
	p.stack = snapshot.StackID(len(p.marks) - 1)
}

// Make makes blocks of a size and returns what Free takes.
func (p *Program) Make(size int64, blocks int) (made []int) {
	for range blocks {
		made = append(made, len(p.phases))
		p.event(snapshot.Alloc, uint64(len(p.phases)+1)<<32, size)
	}
	return made
}

// Free frees blocks in this order.
func (p *Program) Free(blocks ...int) {
	for _, b := range blocks {
		p.event(snapshot.FreeRequested, p.events.Address[b], p.events.Size[b])
		p.event(snapshot.FreeCompleted, p.events.Address[b], p.events.Size[b])
	}
}

// Older frees a block that is older than the program, and returns the event of that.
func (p *Program) Older(size int64) int {
	gone := len(p.phases)
	p.event(snapshot.FreeRequested, 1<<50, size)
	p.event(snapshot.FreeCompleted, 1<<50, size)
	return gone
}

// Fail asks for a block that there is no room for.
func (p *Program) Fail(size int64) { p.event(snapshot.OOM, 0, size) }

// Work makes and frees blocks, one after the other.
func (p *Program) Work(sizes ...int64) {
	for _, n := range sizes {
		p.Free(p.Make(n, 1)...)
	}
}

func (p *Program) event(action snapshot.Action, address uint64, size int64) {
	p.events.Action = append(p.events.Action, action)
	p.events.Address = append(p.events.Address, address)
	p.events.Size = append(p.events.Size, size)
	p.events.Stack = append(p.events.Stack, p.stack)
	p.phases, p.steps = append(p.phases, p.phase), append(p.steps, p.step)
	if p.phase == meaning.Setup {
		p.loop = len(p.phases)
	}
}

// Follow is the program as rules look at it.
func (p *Program) Follow() *phases.Program {
	if len(p.marks) == 0 {
		p.marks = []phases.StackMarks{{}}
	}
	s := &snapshot.Snapshot{Cut: -1, Devices: []snapshot.Device{{Events: p.events}}}
	t := timeline.New(s, &s.Devices[0])
	n := t.Len()
	a := &phases.Program{
		Result: &meaning.Result{Timeline: t, Category: make([]meaning.Category, n), Detail: make([]meaning.Detail, n),
			Confidence: make([]uint8, n), Phase: make([]meaning.Phase, n), Step: make([]int32, n)},
		StackFacts: &phases.StackFacts{Stacks: p.marks}, Timeline: t, Events: &t.Device.Events, Phases: p.phases,
		Loop: p.loop, Last: len(p.phases), Stop: len(p.phases),
	}
	for i, action := range a.Events.Action {
		if action == snapshot.OOM {
			a.OOMs = append(a.OOMs, i)
		}
	}
	a.Recorded.Allocs = len(p.marks) > 1
	for _, m := range p.marks {
		a.All |= m.Marks
	}
	a.Recorded.Native = a.All&frames.Native != 0
	a.Rephase()
	for id := range a.Step {
		if b := a.Born(timeline.AllocationID(id)); b >= 0 {
			a.Step[id] = p.steps[b]
		}
	}
	return a
}

// Ask is what a rule claims of the block that an event concerns, asked as the classification asks it.
func Ask(r *rules.Rule, a *phases.Program, event int) rules.Claim {
	f, id := rules.New(a), a.Timeline.Of[event]
	birth := rules.BornIn(a.Phase[id])
	if a.Born(id) < 0 {
		birth = rules.Older
	}
	if !r.Speaks(f) || r.Born&birth == 0 ||
		r.Birth|r.Death != 0 && a.Birth(id).Marks&r.Birth == 0 && a.Death(id).Marks&r.Death == 0 {
		return rules.Claim{}
	}
	claim := r.Look(f)
	if claim == nil {
		return rules.Claim{}
	}
	return claim(id)
}
