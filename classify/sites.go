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
	exact := a.sites(true, true)
	a.joinBy(exact, nil, 6)
	own := a.own(exact)
	a.joinBy(a.sites(false, true), own, 8)
	a.joinBy(a.sites(true, false), own, 8)
}

// sites names every allocation's site, with its size or without, with its rank
// or without.
func (a *analysis) sites(sized, ranked bool) []site {
	out := make([]site, len(a.Category))
	type place struct{ run, n int32 }
	seen := map[site]place{}
	for i := range out {
		id := timeline.AllocationID(i)
		s := site{stack: a.t.Stack(id), phase: a.Phase[i]}
		if sized {
			s.size = a.t.Requested(id)
		}
		out[i] = s
		if !ranked {
			continue
		}
		r := int32(a.run(a.born(id)))
		p := seen[s]
		if p.run != r {
			p = place{run: r}
		}
		out[i].rank = p.n
		p.n++
		seen[s] = p
	}
	return out
}

// own marks what belongs to a site whose allocations are unsure every time: it
// differs from its neighbours, which must not speak for it.
func (a *analysis) own(sites []site) []bool {
	const often = 3
	unsure := map[site]int{}
	for i, s := range sites {
		if s.stack != 0 && a.Confidence[i] < plausible {
			unsure[s]++
		}
	}
	out := make([]bool, len(sites))
	for i, s := range sites {
		out[i] = a.Confidence[i] < plausible && unsure[s] >= often
	}
	return out
}

// joinBy asks the other allocations of an unsure one's site; share is how many
// of ten must agree.
func (a *analysis) joinBy(sites []site, leave []bool, share int32) {
	tally := map[site]*[NumCategories]int32{}
	unsure := map[site]int32{}
	for i := range sites {
		if sites[i].stack == 0 || a.Confidence[i] >= plausible {
			continue
		}
		if unsure[sites[i]]++; tally[sites[i]] == nil {
			tally[sites[i]] = new([NumCategories]int32)
		}
	}
	for i := range sites {
		if sites[i].stack == 0 || a.Confidence[i] < likely {
			continue
		}
		if t := tally[sites[i]]; t != nil {
			t[a.Category[i]]++
		}
	}
	for i := range sites {
		if sites[i].stack == 0 || a.Confidence[i] >= plausible || leave != nil && leave[i] {
			continue
		}
		var best Category
		var sum int32
		t := tally[sites[i]]
		for c, n := range t {
			sum += n
			if n > t[best] {
				best = Category(c)
			}
		}
		if sum*2 >= unsure[sites[i]] && t[best]*10 >= sum*share {
			a.Category[i], a.Signal[i], a.Confidence[i] = best, BySite, likely
		}
	}
}
