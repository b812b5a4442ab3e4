package weights

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

// passGradients are what backward passes leave, by size: as many as there are weights of that size.
type passGradients struct {
	left []map[int64]int // by pass
	most map[int64]int   // in any pass
}

// leftByPasses are the gradients of a program, pass by pass.
var leftByPasses = rules.Named("gradients that each pass leaves", func(a *rules.Facts) *passGradients {
	const least = 4096 // bytes: what is smaller has a bias's size by chance
	x := &passGradients{most: map[int64]int{}}
	pass := make([]int, len(a.Runs))
	for r := range a.Runs {
		if a.Runs[r].Phase == meaning.Backward {
			pass[r] = len(x.left)
			x.left = append(x.left, map[int64]int{})
		}
	}
	for id := timeline.AllocationID(a.Timeline.Older()); int(id) < a.Timeline.Len(); id++ {
		n, r := a.Timeline.Requested(id), a.Run(a.Born(id))
		if n < least || a.Runs[r].Phase != meaning.Backward || a.Phase[id] != meaning.Backward || !rules.OutlivesPass(a, id) {
			continue
		}
		left := x.left[pass[r]]
		left[n]++
		x.most[n] = max(x.most[n], left[n])
	}
	return x
})

// next are the gradients of a pass or of one before it that leaves more than twice as much: a pass that adds to gradients leaves
// none. One or two are no model's.
func (x *passGradients) next(pass int) (each map[int64]int, bytes int64) {
	const few, least = 8, 3 // passes; gradients
	for p := min(pass, len(x.left)-1); p >= max(0, pass-few); p-- {
		var sum int64
		all := 0
		for n, count := range x.left[p] {
			sum, all = sum+n*int64(count), all+count
		}
		if sum > 2*bytes && all >= least {
			each, bytes = x.left[p], sum
		}
	}
	return each, bytes
}
