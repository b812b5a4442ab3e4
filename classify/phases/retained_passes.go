package phases

import (
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// retainedPasses tells backward passes that release nothing (retain_graph=True), by the gradients that they leave.
type retainedPasses struct {
	*facts
	weights map[int64]int     // of what outlives the program, by size: how many, at most
	place   map[int64]float64 // the first of them
	like    []int32           // by event: allocations of these sizes before it
	budget  int               // events that may still be looked at
}

func newRetainedPasses(f *facts) *retainedPasses {
	const looks = 8 // at each event, on average
	p := &retainedPasses{facts: f, weights: map[int64]int{}, place: map[int64]float64{}, budget: looks * f.Last}
	for id := range timeline.AllocationID(f.Timeline.Len()) {
		if n := f.Timeline.Requested(id); n > Scalar && f.Outlives(id) {
			if p.weights[n]++; p.weights[n] == 1 {
				p.place[n] = float64(id)
			}
		}
	}
	p.like = make([]int32, f.Last+1)
	for i := range f.Last {
		p.like[i+1] = p.like[i]
		if f.Events.Action[i] == snapshot.Alloc && p.weights[f.Events.Size[i]] > 0 {
			p.like[i+1]++
		}
	}
	return p
}

// left counts the gradients that outlive a scalar's life, 0 where it is no pass: nearly all that stays has the size of a weight,
// no more of one size than there are weights, and the last weights' come first, as no optimizer's state does.
func (p *retainedPasses) left(first, end int) int64 {
	const least, most = 6, 1 << 14 // gradients of the smallest pass; events of the longest
	if p.like[end]-p.like[first] < least || end-first > most || p.budget < end-first {
		return 0
	}
	p.budget -= end - first
	of, places, other := map[int64]int{}, []float64(nil), 0
	for i := range p.allocs(first, end) {
		n := p.Events.Size[i]
		switch {
		case n <= Scalar || p.Freed(p.Timeline.Of[i]) <= end:
		case of[n] < p.weights[n]:
			of[n]++
			places = append(places, p.place[n])
		default:
			other++
		}
	}
	if len(places) < least || other*8 > len(places) {
		return 0
	}
	sums, half := [2]float64{}, len(places)/2
	for k, at := range places {
		sums[AsInt(k >= half)] += at
	}
	if sums[0]/float64(half) <= sums[1]/float64(len(places)-half) {
		return 0
	}
	return int64(len(places))
}
