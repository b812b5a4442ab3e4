// Package sites tells what is unsure by itself from what its call site makes otherwise.
//
// A rule goes beside SameSite, and into classify's registry, behind all that don't look
// at others.
package sites

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/classify/rules/older"
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
	SameTurnOfSite = &rules.Rule{
		ID: "same-turn-of-site",
		Doc: `Unsure by itself, and most allocations that are made at the same turn of the same stack, size and phase
turned out to be this.`,
		Signal:   meaning.BySite,
		Siblings: true,
		Born:     rules.AnyTime,
		Needs:    []rules.Need{rules.Stacks},
		Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
			return askSite(a, indexed(a).Exact, nil, 6)
		},
	}
	SameStackTurn = &rules.Rule{
		ID: "same-turn-of-stack",
		Doc: `Unsure by itself, and nearly all allocations that are made at the same turn of the same stack and phase,
of whatever size, turned out to be this.`,
		Signal:   meaning.BySite,
		Siblings: true,
		Born:     rules.AnyTime,
		Needs:    []rules.Need{rules.Stacks},
		Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
			return askSite(a, indexed(a).Places, ownSites(a), 8)
		},
	}
	SameSite = &rules.Rule{
		ID:       "same-site",
		Doc:      `Unsure by itself, and nearly all allocations of the same stack, size and phase turned out to be this.`,
		Signal:   meaning.BySite,
		Siblings: true,
		Born:     rules.AnyTime,
		Needs:    []rules.Need{rules.Stacks},
		Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
			return askSite(a, indexed(a).Sized, ownSites(a), 8)
		},
	}
)

// indexed numbers the sites of what is unsure, for the first rule that asks.
func indexed(a *rules.Facts) *rules.SiteIndex {
	x := &a.Sites
	if x.Known {
		return x
	}
	x.Known = true
	loose, sized, unsure := askedSites(a)
	if loose.N == 0 {
		return x
	}
	x.Sized, x.Unsure = sized, unsure
	together.Do(
		func() { x.Exact = rank(a, sized) },
		func() { x.Places = rank(a, loose) })
	return x
}

// askedSites numbers stacks within a phase, without their sizes and with them,
// where any allocation is unsure: most of a recording isn't asked about.
func askedSites(a *rules.Facts) (loose, sized rules.Sites, unsure []timeline.AllocationID) {
	key := func(id timeline.AllocationID) int {
		return int(a.Timeline.Stack(id))*meaning.NumPhases + int(a.Phase[id])
	}
	number := make([]int32, len(a.Stacks)*meaning.NumPhases) // from 1
	for i, sure := range a.Confidence {
		id := timeline.AllocationID(i)
		if sure >= rules.Plausible || a.Timeline.Stack(id) == 0 {
			continue
		}
		unsure = append(unsure, id)
		if k := key(id); number[k] == 0 {
			loose.N++
			number[k] = int32(loose.N)
		}
	}
	if loose.N == 0 {
		return loose, sized, nil
	}
	type withSize struct {
		loose int32
		size  int64
	}
	loose.Of, sized.Of = pages.Make[int32](len(a.Category)), pages.Make[int32](len(a.Category))
	index := map[withSize]int32{}
	type latest struct {
		size  int64
		sized int32 // and 1
	}
	recent := make([]latest, loose.N) // most sites have a single size
	for i := range loose.Of {
		id := timeline.AllocationID(i)
		s := number[key(id)] - 1
		loose.Of[i], sized.Of[i] = s, s
		if s == elsewhere || a.Timeline.Stack(id) == 0 {
			loose.Of[i], sized.Of[i] = elsewhere, elsewhere
			continue
		}
		size := a.Timeline.Requested(id)
		if r := recent[s]; r.sized > 0 && r.size == size {
			sized.Of[i] = r.sized - 1
			continue
		}
		k := withSize{s, size}
		n, ok := index[k]
		if !ok {
			n = int32(len(index))
			index[k] = n
		}
		sized.Of[i], recent[s] = n, latest{size, n + 1}
	}
	sized.N = len(index)
	return loose, sized, unsure
}

// rank splits sites by the how-manieth of its site an allocation is in its run.
func rank(a *rules.Facts, s rules.Sites) rules.Sites {
	out := rules.Sites{Of: pages.Make[int32](len(s.Of)), N: s.N} // the first of a run keeps the site's number
	next := make([]int32, s.N, 2*s.N)                            // by ranked site: the one of the next rank, 0: not made yet
	type place struct{ run, last int32 }
	now := make([]place, s.N)
	for i := range now {
		now[i].last = elsewhere
	}
	for i, site := range s.Of {
		if out.Of[i] = site; site == elsewhere {
			continue
		}
		p := &now[site]
		if r := int32(a.Run(a.Born(timeline.AllocationID(i)))); p.run != r || p.last == elsewhere {
			p.run, p.last = r, site
			continue
		}
		if next[p.last] == 0 {
			next[p.last] = int32(out.N)
			next = append(next, 0)
			out.N++
		}
		p.last = next[p.last]
		out.Of[i] = p.last
	}
	return out
}

// ownSites marks what of the unsure belongs to a site whose allocations are unsure
// every time, for the first rule that asks: it differs from its neighbours, which must
// not speak for it.
func ownSites(a *rules.Facts) map[timeline.AllocationID]bool {
	const often = 3
	x := indexed(a)
	if x.Own != nil {
		return x.Own
	}
	count := make([]int32, x.Exact.N)
	for _, id := range x.Unsure {
		if a.Confidence[id] < rules.Plausible {
			count[x.Exact.Of[id]]++
		}
	}
	x.Own = map[timeline.AllocationID]bool{}
	for _, id := range x.Unsure {
		if a.Confidence[id] < rules.Plausible && count[x.Exact.Of[id]] >= often {
			x.Own[id] = true
		}
	}
	return x.Own
}

// answers are what the allocations of one site are.
type answers struct {
	unsure  int
	of      older.Tally
	longest int // events that a temporary one lived
}

// askSite asks the other allocations of an unsure one's site, leaving out some; share
// is how many of ten must agree.
//
// complexity: a scan that asks, one that counts and what claims share a table.
func askSite(a *rules.Facts, s rules.Sites, leave map[timeline.AllocationID]bool, share int) func(
	timeline.AllocationID) rules.Claim {
	var asking []answers
	asked := make([]int32, s.N) // index into asking and 1
	for _, id := range a.Sites.Unsure {
		if a.Confidence[id] >= rules.Plausible {
			continue
		}
		site := s.Of[id]
		if asked[site] == 0 {
			asking = append(asking, answers{})
			asked[site] = int32(len(asking))
		}
		asking[asked[site]-1].unsure++
	}
	if len(asking) == 0 {
		return nil
	}
	for i, site := range s.Of {
		if site != elsewhere && asked[site] != 0 && a.Confidence[i] >= rules.Likely {
			t := &asking[asked[site]-1]
			t.of[a.Category[i]]++
			if id := timeline.AllocationID(i); a.Category[i] == meaning.Temporary {
				t.longest = max(t.longest, a.Freed(id)-a.Born(id))
			}
		}
	}
	return func(id timeline.AllocationID) rules.Claim {
		if a.Confidence[id] >= rules.Plausible || s.Of[id] == elsewhere || leave[id] {
			return rules.Claim{}
		}
		t := &asking[asked[s.Of[id]]-1]
		best, sum := t.of.Best()
		switch {
		case best == meaning.Workspace: // each stream has one
		// one line makes both what goes at once and what is kept
		case best == meaning.Temporary && a.Freed(id)-a.Born(id) > 2*t.longest:
		case sum*2 >= t.unsure && t.of[best]*10 >= sum*share:
			return rules.As(best, rules.Likely)
		}
		return rules.Claim{}
	}
}
