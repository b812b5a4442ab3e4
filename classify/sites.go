package classify

import "github.com/vramscope/vramscope/timeline"

// joinSites lets allocations of one line speak for each other: what is known of
// most of them holds for those whose end was not recorded.
func (a *analysis) joinSites() {
	type key struct {
		stack uint32
		phase Phase
	}
	tally := map[key]*[NumCategories]int64{}
	for i := range a.Category {
		id := timeline.AllocationID(i)
		if a.Confidence[i] < likely || a.t.Stack(id) == 0 {
			continue
		}
		k := key{uint32(a.t.Stack(id)), a.Phase[i]}
		t := tally[k]
		if t == nil {
			t = new([NumCategories]int64)
			tally[k] = t
		}
		t[a.Category[i]]++
	}
	for i := range a.Category {
		id := timeline.AllocationID(i)
		if a.Confidence[i] >= plausible || a.t.Stack(id) == 0 {
			continue
		}
		t := tally[key{uint32(a.t.Stack(id)), a.Phase[i]}]
		if t == nil {
			continue
		}
		var best Category
		var sum int64
		for c, n := range t {
			sum += n
			if n > t[best] {
				best = Category(c)
			}
		}
		if t[best]*10 >= sum*7 {
			a.Category[i], a.Signal[i], a.Confidence[i] = best, BySite, likely
		}
	}
}
