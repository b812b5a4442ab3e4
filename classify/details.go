package classify

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/classify/rules/older"
	"github.com/vramscope/vramscope/timeline"
)

// findDetails says more where the category alone leaves it open: moments come in
// the order in which an optimizer makes them, parameters have gradients.
func findDetails(a *rules.Facts) {
	single := older.Gradients.Of(a).GradientSize
	var gradients, states int64
	for n, count := range single {
		gradients += n * int64(count)
	}
	for i, c := range a.Category {
		if c == meaning.OptimizerState && a.Step[i] <= 0 {
			states += a.Timeline.Requested(timeline.AllocationID(i))
		}
	}
	pairs := gradients > 0 && states*2 >= gradients*3 // Adam's two, not momentum's one
	first := int64(-1)                                // size of a first moment whose second is to come
	for i, c := range a.Category {
		if c != meaning.OptimizerState && c != meaning.Weights {
			continue
		}
		n := a.Timeline.Requested(timeline.AllocationID(i))
		switch {
		case a.Detail[i] != meaning.NoDetail:
		case c == meaning.OptimizerState && n <= phases.Scalar:
			a.Detail[i] = meaning.StepCounter
		case c == meaning.OptimizerState && pairs && n == first:
			a.Detail[i], first = meaning.Moment2, -1
		case c == meaning.OptimizerState:
			a.Detail[i], first = meaning.Moment1, n
		case c == meaning.Weights && single[n] > 0:
			a.Detail[i] = meaning.Parameter
		}
	}
}
