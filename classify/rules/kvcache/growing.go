// Package kvcache tells key-value caches by their rows of equal blocks: such as grow by
// concatenation, such as are made whole, and such as training passes keep.
//
// A rule for another kind of cache finds its rows in a file of its own; what makes a loop
// one that generates is asked by Look.
package kvcache

import (
	"cmp"
	"slices"
	"sort"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/classify/rules/rows"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/timeline"
)

var GrowingCache = &rules.Rule{
	ID: "kv-cache-growing",
	Doc: `One of equal numbers of blocks of sizes that rise by the same amount, each freed only after the next
size is there: a key-value cache that grows by concatenation. Where nothing trains, it may also grow by other amounts, be cut
back to what was accepted, or be put in another order, as long as each set takes the whole one's place.`,
	Signal: meaning.BySize,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Needs:  []rules.Need{Growth},
	Begin: func(a *rules.Facts) rules.Says {
		return rules.Marked(Growth.Of(a).Growing, rules.As(meaning.KVCache, rules.Strong))
	},
}

// Rows are the rows of equal blocks of a program.
var Rows = rules.Named("rows of equal blocks", func(a *rules.Facts) []*rows.Row {
	return rows.Find(a.Program, rules.Sizes.Of(a).WeightSize)
})

// Grown are caches that grow.
type Grown struct {
	Growing []bool        // by allocation: of such a cache; nil: there is none
	Chains  [][]*rows.Row // a cache in every pass of one request
}

// Growth are the caches of a program that grow by concatenation.
var Growth = rules.Named("rows of equal blocks whose sizes rise from pass to pass", findGrowth)

// findGrowth finds chains of rows of as many blocks each, whose sizes rise by the same amount.
func findGrowth(a *rules.Facts) *Grown {
	const shortest = 4
	g := &Grown{}
	byCount, bySize := map[int][]*rows.Row{}, map[int64][]*rows.Row{}
	for _, r := range Rows.Of(a) { // what a backward pass may see is no cache
		if a.Phase[r.IDs[0]] != meaning.Setup && !slices.ContainsFunc(r.IDs, func(id timeline.AllocationID) bool {
			return !rules.BeforeBackward(a, id)
		}) {
			byCount[len(r.IDs)], bySize[r.Size] = append(byCount[len(r.IDs)], r), append(bySize[r.Size], r)
		}
	}
	for _, list := range byCount {
		grows := map[*rows.Row]bool{}
		for i, r := range list {
			if grows[r] {
				continue
			}
			if chain, changes := chainFrom(list, i, a.Trains); changes+1 >= shortest {
				g.Chains = append(g.Chains, chain)
				for _, r := range chain {
					grows[r] = true
				}
			}
		}
	}
	if len(g.Chains) > 0 {
		g.mark(a, bySize)
	}
	return g
}

// mark marks what grows, and what the first row of a growing cache took the place of: a
// prompt's keys and values, among others that have their size.
func (g *Grown) mark(a *rules.Facts, bySize map[int64][]*rows.Row) {
	slices.SortFunc(g.Chains, func(x, y []*rows.Row) int { return cmp.Compare(x[0].First, y[0].First) })
	g.Growing = pages.Make[bool](len(a.Category))
	for _, chain := range g.Chains {
		for _, r := range chain {
			for _, id := range r.IDs {
				g.Growing[id] = true
			}
		}
		first := chain[0].First
		if prompt := thereAt(bySize[2*chain[0].Size-chain[1].Size], first); prompt != nil {
			for _, id := range prompt.IDs {
				g.Growing[id] = g.Growing[id] || a.Freed(id) > first
			}
		}
	}
}

// thereAt is the last of some rows that is made before an event and there at it; nil: none is.
func thereAt(list []*rows.Row, event int) *rows.Row {
	const look = 1 << 10 // rows: what else a pass makes of their size
	i := sort.Search(len(list), func(i int) bool { return list[i].First >= event })
	for _, r := range slices.Backward(list[max(0, i-look):i]) {
		if r.Last < event && r.MaxFreed > event {
			return r
		}
	}
	return nil
}

// chainFrom follows a growing cache from one of a list of rows, and counts how often its size changes: by as much each time
// where that must be, else it may also be cut back, or only put into another order.
func chainFrom(list []*rows.Row, first int, steady bool) (chain []*rows.Row, changes int) {
	const look = 64 // rows: what else a pass makes as many of
	chain = []*rows.Row{list[first]}
	var step int64
	for i := first + 1; i < min(len(list), first+1+look); i++ {
		last, next := chain[len(chain)-1], list[i]
		by := next.Size - last.Size
		other := by <= 0 || step > 0 && by != step
		if by > last.Size || -by*2 > last.Size || other && (steady || last.MaxFreed > next.MinFreed) || !follows(last, next) {
			continue
		}
		chain, step, first = append(chain, next), by, i
		changes += phases.AsInt(by != 0)
	}
	return chain, changes
}

// follows reports whether one row takes the place of another, of which all are there until
// it begins.
func follows(last, next *rows.Row) bool {
	return len(next.IDs) == len(last.IDs) && next.First > last.Last && last.MinFreed > next.First
}

// Look looks at a program whose phases are those of training and of plain forward passes. Here
// is the one place where facts change phases, and their order counts: what is a cache is told
// by the passes that were found; loops with one, and what grows one between steps of training,
// become generation; then all other facts are asked of the phases as they are from then on.
func Look(p *phases.Program) *rules.Facts {
	a := rules.New(p)
	a.Ask(Growth, rules.Saved, rules.Retention)
	if !generates(a) {
		return a
	}
	stay := []rules.Need{rules.Sizes, Rows, Growth, Whole}
	if !a.Trains { // nothing trains the passes that are others now
		stay = append(stay, rules.Saved, rules.Retention)
	}
	return a.Again(stay...)
}

// generates turns loops that only run forward and keep a cache into generation, and what a
// program that trains does while one grows. It reports whether a part became one.
func generates(a *rules.Facts) bool {
	chains := Growth.Of(a).Chains
	if a.Trains {
		return generatesWithin(a, chains)
	}
	if len(Whole.Of(a)) == 0 && len(chains) == 0 && (rules.Saved.Of(a).Saves || !hasClass(a)) {
		return false
	}
	end := endOfGrowth(a, chains)
	for i := a.Loop; i < end; i++ {
		if meaning.HintOf(a.Phases[i]).Is(meaning.Forward, meaning.Data, meaning.OtherPhase) {
			a.Phases[i] = meaning.Generate
		}
	}
	a.Rephase()
	if len(a.Steps) == 0 {
		a.Before = a.Spans(0, a.Last)
	}
	return true
}

// endOfGrowth is where generation ends for good, though the program goes on until a request fails: several passes' time after
// the last cache has grown, as where what was generated is trained on. Else it is the recording's end.
func endOfGrowth(a *rules.Facts, chains [][]*rows.Row) int {
	const several = 2 // passes
	end, each := 0, 0 // events
	for _, chain := range chains {
		if last := chain[len(chain)-1].Last; last > end {
			end, each = last, (last-chain[0].First)/len(chain)
		}
	}
	if len(chains) == 0 || len(a.OOMs) == 0 || a.Last-end < several*each {
		return a.Last
	}
	return min(end+each, a.Last)
}

// hasClass reports whether a forward pass runs through the class of a cache.
func hasClass(a *rules.Facts) bool {
	for i := 0; i < len(a.Category) && a.All&frames.Cache != 0; i++ {
		if a.Birth(timeline.AllocationID(i)).Marks&frames.Cache != 0 && a.Phase[i] == meaning.Forward {
			return true
		}
	}
	return false
}

// generatesWithin turns into generation what a program that trains does from the pass over
// a prompt until the cache that has grown since is gone.
func generatesWithin(a *rules.Facts, chains [][]*rows.Row) bool {
	done := 0
	for _, chain := range chains {
		first, end := chain[0].First, chain[len(chain)-1].MaxFreed
		for i := max(a.Runs[a.Run(first)].First, done); i < min(end, a.Last); i++ {
			if a.Phases[i] == meaning.Forward || a.Phases[i] == meaning.OtherPhase {
				a.Phases[i] = meaning.Generate
			}
		}
		done = max(done, end)
	}
	for r := 0; r < len(a.Runs); r++ {
		first := r
		for r < len(a.Runs) && meaning.HintOf(a.Runs[r].Phase).Is(meaning.Data, meaning.Forward, meaning.OtherPhase) {
			r++
		}
		if first == r {
			continue
		}
		from, to := rising(a, max(a.Loop, a.Runs[first].First), a.Runs[r-1].End)
		for i := from; i < to; i++ {
			a.Phases[i], done = meaning.Generate, a.Last
		}
	}
	if done > 0 {
		a.Rephase()
	}
	return done > 0
}

// rising is the stretch of passes of which each makes in the place of what the one before made as much more as that did: one
// token more, without a cache.
func rising(a *rules.Facts, from, to int) (first, end int) {
	const several, look = 6, 256
	kinds := kindsIn(a, from, to)
	longest := several - 1
	for k := range kinds {
		last, by, length := kinds[k], int64(0), 1
		for _, next := range kinds[k+1 : min(len(kinds), k+1+look)] {
			if d := next.size - last.size; next.follows(last) && (by == 0 || d == by) {
				last, by, length = next, d, length+1
			}
		}
		if length > longest {
			first, end, longest = kinds[k].first, last.last+1, length
		}
		if length == longest && longest >= several {
			first, end = min(first, kinds[k].first), max(end, last.last+1)
		}
	}
	return first, end
}

// blocks are those of one size in a stretch: when the first and the last are made, and how many.
type blocks struct {
	size               int64
	first, last, count int
}

// follows is true of as many blocks that are made once others are through, and are larger, by less than those are.
func (b blocks) follows(last blocks) bool {
	return b.count == last.count && b.first > last.last && last.size < b.size && b.size < 2*last.size
}

// kindsIn are the sizes that a stretch makes, in the order in which they come.
func kindsIn(a *rules.Facts, from, to int) (kinds []blocks) {
	of := map[int64]int{}
	for i := range a.Allocs(from, to) {
		if n := a.Events.Size[i]; n > phases.Scalar {
			k, known := of[n]
			if !known {
				k, of[n] = len(kinds), len(kinds)
				kinds = append(kinds, blocks{n, i, i, 0})
			}
			kinds[k].last, kinds[k].count = i, kinds[k].count+1
		}
	}
	return kinds
}
