package classify

import (
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/internal/together"
	"github.com/vramscope/vramscope/timeline"
)

// A site is a place in the program's work that comes back in every iteration:
// the stack, the size, and the how-manieth of both in its run of one phase.
// Sites are small integers; elsewhere is the site of what nobody asks about.
const elsewhere = -1

// sites are the sites of all allocations.
type sites struct {
	of []int32 // by allocation
	n  int     // how many there are
}

// joinSites lets allocations of one site speak for each other: what is known of
// most of them holds for those whose end was not recorded.
func joinSites(a *analysis) {
	if !a.recorded.allocs {
		return
	}
	loose, sized, unsure := askedSites(a)
	if loose.n == 0 {
		return
	}
	var exact, places sites
	together.Do(
		func() { exact = rank(a, sized) },
		func() { places = rank(a, loose) })
	joinBy(a, exact, unsure, nil, 6)
	own := ownSites(a, exact, unsure)
	joinBy(a, places, unsure, own, 8)
	joinBy(a, sized, unsure, own, 8)
}

// askedSites numbers stacks within a phase, without their sizes and with them,
// where any allocation is unsure: most of a recording isn't asked about.
func askedSites(a *analysis) (loose, sized sites, unsure []timeline.AllocationID) {
	key := func(id timeline.AllocationID) int { return int(a.t.Stack(id))*NumPhases + int(a.Phase[id]) }
	number := make([]int32, len(a.stacks)*NumPhases) // from 1
	for i, sure := range a.Confidence {
		id := timeline.AllocationID(i)
		if sure >= plausible || a.t.Stack(id) == 0 {
			continue
		}
		unsure = append(unsure, id)
		if k := key(id); number[k] == 0 {
			loose.n++
			number[k] = int32(loose.n)
		}
	}
	if loose.n == 0 {
		return loose, sized, nil
	}
	type withSize struct {
		loose int32
		size  int64
	}
	loose.of, sized.of = pages.Make[int32](len(a.Category)), pages.Make[int32](len(a.Category))
	index := map[withSize]int32{}
	type latest struct {
		size  int64
		sized int32 // and 1
	}
	recent := make([]latest, loose.n) // most sites have a single size
	for i := range loose.of {
		id := timeline.AllocationID(i)
		s := number[key(id)] - 1
		loose.of[i], sized.of[i] = s, s
		if s == elsewhere || a.t.Stack(id) == 0 {
			loose.of[i], sized.of[i] = elsewhere, elsewhere
			continue
		}
		size := a.t.Requested(id)
		if r := recent[s]; r.sized > 0 && r.size == size {
			sized.of[i] = r.sized - 1
			continue
		}
		k := withSize{s, size}
		n, ok := index[k]
		if !ok {
			n = int32(len(index))
			index[k] = n
		}
		sized.of[i], recent[s] = n, latest{size, n + 1}
	}
	sized.n = len(index)
	return loose, sized, unsure
}

// rank splits sites by the how-manieth of its site an allocation is in its run.
func rank(a *analysis, s sites) sites {
	out := sites{of: pages.Make[int32](len(s.of)), n: s.n} // the first of a run keeps the site's number
	next := make([]int32, s.n, 2*s.n)                      // by ranked site: the one of the next rank, 0: not made yet
	type place struct{ run, last int32 }
	now := make([]place, s.n)
	for i := range now {
		now[i].last = elsewhere
	}
	for i, site := range s.of {
		if out.of[i] = site; site == elsewhere {
			continue
		}
		p := &now[site]
		if r := int32(a.run(a.born(timeline.AllocationID(i)))); p.run != r || p.last == elsewhere {
			p.run, p.last = r, site
			continue
		}
		if next[p.last] == 0 {
			next[p.last] = int32(out.n)
			next = append(next, 0)
			out.n++
		}
		p.last = next[p.last]
		out.of[i] = p.last
	}
	return out
}

// ownSites marks what of the unsure belongs to a site whose allocations are unsure
// every time: it differs from its neighbours, which must not speak for it.
func ownSites(a *analysis, s sites, unsure []timeline.AllocationID) []bool {
	const often = 3
	count := make([]int32, s.n)
	for _, id := range unsure {
		if a.Confidence[id] < plausible {
			count[s.of[id]]++
		}
	}
	out := make([]bool, len(unsure))
	for i, id := range unsure {
		out[i] = a.Confidence[id] < plausible && count[s.of[id]] >= often
	}
	return out
}

// joinBy asks the other allocations of an unsure one's site; share is how many
// of ten must agree.
func joinBy(a *analysis, s sites, unsure []timeline.AllocationID, leave []bool, share int) {
	type answers struct {
		unsure  int
		of      tally
		longest int // events that a temporary one lived
	}
	var asking []answers
	asked := make([]int32, s.n) // index into asking and 1
	for _, id := range unsure {
		if a.Confidence[id] >= plausible {
			continue
		}
		site := s.of[id]
		if asked[site] == 0 {
			asking = append(asking, answers{})
			asked[site] = int32(len(asking))
		}
		asking[asked[site]-1].unsure++
	}
	if len(asking) == 0 {
		return
	}
	for i, site := range s.of {
		if site != elsewhere && asked[site] != 0 && a.Confidence[i] >= likely {
			t := &asking[asked[site]-1]
			t.of[a.Category[i]]++
			if id := timeline.AllocationID(i); a.Category[i] == Temporary {
				t.longest = max(t.longest, a.freed(id)-a.born(id))
			}
		}
	}
	for i, id := range unsure {
		if a.Confidence[id] >= plausible || leave != nil && leave[i] {
			continue
		}
		t := &asking[asked[s.of[id]]-1]
		best, sum := t.of.best()
		if best == Workspace { // each stream has one
			continue
		}
		if best == Temporary && a.freed(id)-a.born(id) > 2*t.longest { // one line makes both what goes at once and what is kept
			continue
		}
		if sum*2 >= t.unsure && t.of[best]*10 >= sum*share {
			a.Category[id], a.Signal[id], a.Confidence[id] = best, BySite, likely
		}
	}
}
