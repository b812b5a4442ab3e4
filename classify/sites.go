package classify

import (
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// site is a place in the program's work that comes back in every iteration: the
// stack, the size, and the how-manieth of both in its run of one phase.
type site struct {
	stack snapshot.StackID
	size  int64
	rank  int32
	phase Phase
}

// joinSites lets allocations of one site speak for each other: what is known of
// most of them holds for those whose end was not recorded.
func (a *analysis) joinSites() {
	if !a.recorded.allocs {
		return
	}
	unsure := 0
	for i := range a.Category {
		if a.Confidence[i] < plausible {
			unsure++
		}
	}
	if unsure == 0 {
		return
	}
	ranked := a.sites()
	for _, coarse := range []bool{false, true} {
		a.joinBy(ranked, coarse)
	}
}

// sites numbers the allocations of each stack and size within their run.
func (a *analysis) sites() []site {
	out := make([]site, len(a.Category))
	type key struct {
		stack snapshot.StackID
		size  int64
	}
	type place struct{ run, n int32 }
	seen := map[key]place{}
	for i := range out {
		id := timeline.AllocationID(i)
		k := key{a.t.Stack(id), a.t.Requested(id)}
		r := int32(a.run(a.born(id)))
		p := seen[k]
		if p.run != r {
			p = place{run: r}
		}
		out[i] = site{k.stack, k.size, p.n, a.Phase[i]}
		p.n++
		seen[k] = p
	}
	return out
}

// joinBy asks the other allocations of an unsure one's site; coarse forgets the
// rank and asks for more agreement.
func (a *analysis) joinBy(sites []site, coarse bool) {
	tally := map[site]*[NumCategories]int32{}
	at := func(i int) site {
		s := sites[i]
		if coarse {
			s.rank = 0
		}
		return s
	}
	for i := range sites {
		if sites[i].stack != 0 && a.Confidence[i] < plausible && tally[at(i)] == nil {
			tally[at(i)] = new([NumCategories]int32)
		}
	}
	for i := range sites {
		if sites[i].stack == 0 || a.Confidence[i] < likely {
			continue
		}
		if t := tally[at(i)]; t != nil {
			t[a.Category[i]]++
		}
	}
	share := int32(6)
	if coarse {
		share = 8
	}
	for i := range sites {
		if sites[i].stack == 0 || a.Confidence[i] >= plausible {
			continue
		}
		var best Category
		var sum int32
		t := tally[at(i)]
		for c, n := range t {
			sum += n
			if n > t[best] {
				best = Category(c)
			}
		}
		if sum > 0 && t[best]*10 >= sum*share {
			a.Category[i], a.Signal[i], a.Confidence[i] = best, BySite, likely
		}
	}
}
