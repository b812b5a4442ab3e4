package phases

import "github.com/vramscope/vramscope/classify/meaning"

// Closures tells what is an optimizer's own in steps that run forward and backward.
var Closures = &Signal{
	ID: "closures",
	Doc: `An optimizer that was given a closure runs forward and backward within its step, and only what follows the backward
pass is its own work. LBFGS needs a closure, Lightning gives one to all. Other named ranges within the step's tell so; the
optimizer's part lasts up to the end of the step, and up to each zero_grad in it.`,
	Needs: []Need{Ranges},
	Find: func(f *facts) (x found) {
		for k, w := range f.Windows {
			if !w.closure {
				continue
			}
			ends := []int{w.end}
			for _, within := range inside(f.Windows, k) {
				if within.phase == meaning.ZeroGrad {
					ends = append(ends, within.first)
				}
			}
			for _, end := range ends {
				rest := end
				for rest > w.first && f.hint(rest-1) != meaning.HintOf(meaning.Backward) {
					rest--
				}
				if rest > w.first || end == w.end { // else it only clears gradients
					x.spans.add(rest, end, meaning.Optimizer)
				}
			}
		}
		return x
	},
}
