package facts

import (
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/replay/passes"
	"github.com/vramscope/vramscope/timeline"
)

// Larger tells of a batch on which a request failed that it is larger than any before.
type Larger struct {
	Times          float64 // 0: it isn't, or no two steps went well before
	Inputs, Before int64   // of the step, and the most that an earlier one had; 0: something else shows it
	Pass           bool    // by what its pass makes against the step before, if it also needs far more than any step had in use
	Step           bool    // by what it holds beyond what was there when it began
	Longer, Alike  bool    // its inputs are known, and larger than before, if not by as much; or aren't larger
}

// Larger is how large the batch is on which a request failed, by its inputs; where these don't tell, by what its pass makes, or
// by how much the step holds beyond what was there when it began.
func (p *Pass) Larger(o *timeline.OOM) Larger {
	const steps, larger, far = 2, 1.5, 1.25
	k := int(p.StepAt(o.Event))
	if k < steps {
		return Larger{}
	}
	of, rise := inputsOf.Of(p), rises.Of(p)
	var most, peak, rose int64
	for i := range k {
		most, peak, rose = max(most, of[i]), max(peak, p.Classes.Steps[i].PeakAllocated), max(rose, rise[i])
	}
	if most > 0 && float64(of[k]) >= larger*float64(most) {
		return Larger{Times: float64(of[k]) / float64(most), Inputs: of[k], Before: most, Longer: true}
	}
	known, longer := most > 0 && of[k] > 0, of[k]*10 >= most*11
	x := Larger{Longer: known && longer, Alike: known && !longer}
	if rest := ToCome.Of(p)[o.Event]; rest.Times >= larger && float64(o.Active+rest.Bytes) > far*float64(peak) {
		x.Times, x.Pass = rest.Times, true
		return x
	}
	began := p.Classes.Steps[k].PeakAllocated - rise[k]
	if now := o.Active + o.Requested - began; rose > 0 && float64(now) >= larger*float64(rose) && float64(now+began) > far*
		float64(peak) && (passes.In(p.Classes, classify.Forward, o.Event) || passes.In(p.Classes, classify.Backward, o.Event)) {
		x.Times, x.Step = float64(now)/float64(rose), true
	}
	return x
}

// rises are by how much each step came to hold more than what was there when it began.
var rises = inner(func(p *Pass) []int64 {
	steps := p.Classes.Steps
	of, next, before := make([]int64, len(steps)), 0, p.T.Start.Allocated
	p.T.WalkAllocated(func(event int, level int64) {
		for ; next < len(steps) && steps[next].FirstEvent <= event; next++ {
			of[next] = max(0, steps[next].PeakAllocated-before)
		}
		before = level
	})
	return of
})

// inputsOf are the requested bytes of each step's inputs.
var inputsOf = inner(func(p *Pass) []int64 {
	of := make([]int64, len(p.Classes.Steps))
	for id := range p.Each(classify.Inputs) {
		if step := p.Classes.Step[id]; step >= 0 && p.T.Born[id] != timeline.Never {
			of[step] += p.T.Requested(id)
		}
	}
	return of
})

// Factor is a factor with a place after its point, where that isn't 0.
func Factor(times float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(times, 'f', 1, 64), ".0")
}
