package facts

import (
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/timeline"
)

// Larger is how many times as large as any before the batch is on which a request failed: by its inputs, of which before is
// the most that an earlier step had; where none is known, by what its pass makes against the step before (before 0), if it also
// needs far more than any step had in use. 0: it isn't, or no two steps went well before.
func (p *Pass) Larger(o *timeline.OOM) (times float64, inputs, before int64) {
	const steps, larger, far = 2, 1.5, 1.25
	k := int(p.StepAt(o.Event))
	if k < steps {
		return 0, 0, 0
	}
	of := inputsOf.Of(p)
	most, peak := int64(0), int64(0)
	for i := range k {
		most, peak = max(most, of[i]), max(peak, p.Classes.Steps[i].PeakAllocated)
	}
	if known := most > 0 && of[k] > 0; known && float64(of[k]) >= larger*float64(most) {
		return float64(of[k]) / float64(most), of[k], most
	} else if known {
		return 0, 0, 0
	}
	if rest := ToCome.Of(p)[o.Event]; rest.Times >= larger && float64(o.Active+rest.Bytes) > far*float64(peak) {
		return rest.Times, 0, 0
	}
	return 0, 0, 0
}

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
