package classify

import "github.com/vramscope/vramscope/timeline"

// findDetails says more where the category alone leaves it open: moments come in
// the order in which an optimizer makes them, parameters have gradients.
func findDetails(a *analysis) {
	var gradients, states int64
	for n, count := range a.gradientSize {
		gradients += n * int64(count)
	}
	for i, c := range a.Category {
		if c == OptimizerState && a.Step[i] <= 0 {
			states += a.t.Requested(timeline.AllocationID(i))
		}
	}
	pairs := gradients > 0 && states*2 >= gradients*3 // Adam's two, not momentum's one
	first := int64(-1)                                // size of a first moment whose second is to come
	for i, c := range a.Category {
		if c != OptimizerState && c != Weights {
			continue
		}
		n := a.t.Requested(timeline.AllocationID(i))
		switch {
		case a.Detail[i] != NoDetail:
		case c == OptimizerState && n <= scalar:
			a.Detail[i] = StepCounter
		case c == OptimizerState && pairs && n == first:
			a.Detail[i], first = Moment2, -1
		case c == OptimizerState:
			a.Detail[i], first = Moment1, n
		case c == Weights && a.gradientSize[n] > 0:
			a.Detail[i] = Parameter
		}
	}
}
