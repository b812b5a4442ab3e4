package facts

import (
	"math"
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/timeline"
)

// Spell is memory that a fix would free, from right after one event up to
// another.
type Spell struct {
	From, To int
	Bytes    int64
}

// LifeOf is the time that an allocation takes room, as a spell.
func (p *Pass) LifeOf(id timeline.AllocationID) Spell {
	life := p.T.Life(id)
	return Spell{From: life.Born, To: max(life.Freed, 0), Bytes: p.T.Allocated[id]}
}

// Needed is the largest amount of memory that the program held, or would have
// with the first request that failed.
func (p *Pass) Needed() int64 {
	peak := p.T.Peaks.Allocated.Bytes
	if len(p.T.OOMs) > 0 {
		peak = max(peak, p.T.OOMs[0].Allocated+p.T.OOMs[0].Requested)
	}
	return peak
}

// WholeNeed is the same with all that phases had yet to make in which requests failed.
func (p *Pass) WholeNeed() int64 {
	need := p.Needed()
	for i := range p.T.OOMs {
		need = max(need, needAt(p, &p.T.OOMs[i]))
	}
	return need
}

// needAt is what a program wanted to hold next when a request failed.
func needAt(p *Pass, o *timeline.OOM) int64 { return o.Active + max(o.Requested, p.StillToCome(o)) }

// needWithout is the same with some memory gone: of what was still to come as much as of what its step had made.
func needWithout(p *Pass, o *timeline.OOM, spells []Spell, gone int64) int64 {
	need := needAt(p, o) - gone
	if need+gone == o.Active+o.Requested {
		return need
	}
	first := stepOf(p, o)
	var spared int64
	for _, s := range spells {
		if s.From >= first && s.From <= o.Event && o.Event < s.To {
			spared += s.Bytes
		}
	}
	return need - int64(float64(p.StillToCome(o)-o.Requested)*p.Part(o, spared))
}

// stepOf is the first event of the step in which a request failed; what comes next is never a part of what
// an optimizer's first step has made.
func stepOf(p *Pass, o *timeline.OOM) int {
	step, rest := p.StepAt(o.Event), ToCome.Of(p)[o.Event]
	if step >= 0 && !rest.InOptimizer() {
		return p.Classes.Steps[step].FirstEvent
	}
	return math.MaxInt
}

// Part is which part some bytes are of what the step had made in which a request failed.
func (p *Pass) Part(o *timeline.OOM, bytes int64) float64 {
	first := stepOf(p, o)
	var made int64
	for id := p.T.BornSince(first); int(id) < p.T.Len() && p.T.BornAt(id) <= o.Event; id++ {
		if p.T.AliveAt(id, o.Event) {
			made += p.T.Allocated[id]
		}
	}
	return float64(min(bytes, made)) / float64(max(1, made))
}

// PeakWithout is what WholeNeed would be with some memory gone. Only stretches that
// could hold more than was found at the curve's instants are walked through.
func (p *Pass) PeakWithout(spells []Spell) int64 {
	l := newLowered(spells)
	peak := p.T.Start.Allocated - l.goneAt(timeline.NoEvent)
	for _, c := range p.T.Curve() {
		peak = max(peak, c.Allocated-l.goneAt(c.Event))
	}
	l.rewind(0)
	for i := range p.T.OOMs {
		o := &p.T.OOMs[i]
		peak = max(peak, needWithout(p, o, spells, l.goneAt(o.Event)))
	}
	l.rewind(0)
	for k, s := range p.T.Stretches {
		least := l.goneAt(s.First.Event)
		from := l.next
		for l.next < len(l.steps) && l.steps[l.next].event < s.End {
			least = min(least, l.goneAt(l.steps[l.next].event))
		}
		if s.High.Allocated-least > peak {
			l.rewind(from)
			p.T.WalkStretch(k, func(event int, level int64) { peak = max(peak, level-l.goneAt(event)) })
		}
	}
	return peak
}

// lowered is what is gone of a curve.
type lowered struct {
	steps []step // by event
	next  int
	gone  int64 // after all steps before next
}

// step is a change of what is gone, from an event on.
type step struct {
	event int
	bytes int64
}

func newLowered(spells []Spell) *lowered {
	l := &lowered{steps: make([]step, 0, 2*len(spells))}
	for _, s := range spells {
		if s.From < s.To {
			l.steps = append(l.steps, step{s.From, s.Bytes}, step{s.To, -s.Bytes})
		}
	}
	slices.SortFunc(l.steps, func(a, b step) int { return a.event - b.event })
	return l
}

// goneAt is what is gone after an event; events are asked for in order.
func (l *lowered) goneAt(event int) int64 {
	for l.next < len(l.steps) && l.steps[l.next].event <= event {
		l.gone += l.steps[l.next].bytes
		l.next++
	}
	return l.gone
}

// rewind goes back to a step.
func (l *lowered) rewind(next int) {
	for ; l.next > next; l.next-- {
		l.gone -= l.steps[l.next-1].bytes
	}
}

// MostAtOnce is the most that some allocations take at the same time, in bytes.
func (p *Pass) MostAtOnce(ids []timeline.AllocationID) (most int64) {
	spells := make([]Spell, len(ids))
	for i, id := range ids {
		spells[i] = p.LifeOf(id)
	}
	l := newLowered(spells)
	for _, s := range l.steps {
		most = max(most, l.goneAt(s.event))
	}
	return most
}

// linger is for how many events a tensor of a forward pass is still needed when
// nothing keeps it for a backward pass: until the operations that read it have run.
const linger = 24

// AfterUse is what tensors of forward passes take once they were read.
func (p *Pass) AfterUse(ids []timeline.AllocationID) []Spell {
	out := make([]Spell, 0, len(ids))
	for _, id := range ids {
		if p.Classes.Category[id] == classify.Logits && p.Classes.Detail[id] == classify.NoDetail {
			continue // the logits themselves are wanted
		}
		s := p.LifeOf(id)
		if s.From != timeline.NoEvent { // else it was read before the first event
			s.From += linger
		}
		out = append(out, s)
	}
	return out
}
