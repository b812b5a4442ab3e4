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

// Rules of sites: what is known of most allocations of a site holds for those of which
// nothing surer is known.
var (
	sameTurnOfSite = &Rule{
		ID: "same-turn-of-site",
		Doc: `Unsure by itself, and most allocations that are made at the same turn of the same stack, size and phase
turned out to be this.`,
		Signal:   BySite,
		Siblings: true,
		Born:     anyTime,
		Needs:    []Need{Stacks},
		Begin: func(a *analysis) func(timeline.AllocationID) claim {
			if indexSites(a); a.sites.unsure == nil {
				return nil
			}
			return askSite(a, a.sites.exact, nil, 6)
		},
	}
	sameStackTurn = &Rule{
		ID: "same-turn-of-stack",
		Doc: `Unsure by itself, and nearly all allocations that are made at the same turn of the same stack and phase,
of whatever size, turned out to be this.`,
		Signal:   BySite,
		Siblings: true,
		Born:     anyTime,
		Needs:    []Need{Stacks},
		Begin: func(a *analysis) func(timeline.AllocationID) claim {
			if a.sites.unsure == nil {
				return nil
			}
			a.sites.own = ownSites(a, a.sites.exact, a.sites.unsure)
			return askSite(a, a.sites.places, a.sites.own, 8)
		},
	}
	sameSite = &Rule{
		ID:       "same-site",
		Doc:      `Unsure by itself, and nearly all allocations of the same stack, size and phase turned out to be this.`,
		Signal:   BySite,
		Siblings: true,
		Born:     anyTime,
		Needs:    []Need{Stacks},
		Begin: func(a *analysis) func(timeline.AllocationID) claim {
			if a.sites.unsure == nil {
				return nil
			}
			return askSite(a, a.sites.sized, a.sites.own, 8)
		},
	}
)

// indexSites numbers the sites of what is unsure.
func indexSites(a *analysis) {
	loose, sized, unsure := askedSites(a)
	if loose.n == 0 {
		return
	}
	a.sites.sized, a.sites.unsure = sized, unsure
	together.Do(
		func() { a.sites.exact = rank(a, sized) },
		func() { a.sites.places = rank(a, loose) })
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
func ownSites(a *analysis, s sites, unsure []timeline.AllocationID) map[timeline.AllocationID]bool {
	const often = 3
	count := make([]int32, s.n)
	for _, id := range unsure {
		if a.Confidence[id] < plausible {
			count[s.of[id]]++
		}
	}
	out := map[timeline.AllocationID]bool{}
	for _, id := range unsure {
		if a.Confidence[id] < plausible && count[s.of[id]] >= often {
			out[id] = true
		}
	}
	return out
}

// answers are what the allocations of one site are.
type answers struct {
	unsure  int
	of      tally
	longest int // events that a temporary one lived
}

// askSite asks the other allocations of an unsure one's site, leaving out some; share
// is how many of ten must agree.
func askSite(a *analysis, s sites, leave map[timeline.AllocationID]bool, share int) func(timeline.AllocationID) claim {
	var asking []answers
	asked := make([]int32, s.n) // index into asking and 1
	for _, id := range a.sites.unsure {
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
		return nil
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
	return func(id timeline.AllocationID) claim {
		if a.Confidence[id] >= plausible || s.of[id] == elsewhere || leave[id] {
			return claim{}
		}
		t := &asking[asked[s.of[id]]-1]
		best, sum := t.of.best()
		switch {
		case best == Workspace: // each stream has one
		case best == Temporary && a.freed(id)-a.born(id) > 2*t.longest: // one line makes both what goes at once and what is kept
		case sum*2 >= t.unsure && t.of[best]*10 >= sum*share:
			return as(best, likely)
		}
		return claim{}
	}
}
