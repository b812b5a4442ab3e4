// Package kvcache tells key-value caches by their rows of equal blocks: such as grow by
// concatenation, such as are made whole, and such as training passes keep.
//
// A rule for another kind of cache finds its rows in a file of its own; what makes a loop
// one that generates is asked by Look.
package kvcache

import (
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/classify/rules/rows"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/timeline"
)

var GrowingCache = &rules.Rule{
	ID: "kv-cache-growing",
	Doc: `One of equal numbers of blocks of sizes that rise by the same amount, each freed only after the next
size is there: a key-value cache that grows by concatenation.`,
	Signal: meaning.BySize,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Needs:  []rules.Need{Growth},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		growing := Growth.Of(a).Growing
		if growing == nil {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			if !growing[id] {
				return rules.Claim{}
			}
			return rules.As(meaning.KVCache, rules.Strong)
		}
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
	var list []*rows.Row // what a backward pass may see is no cache
	for _, r := range Rows.Of(a) {
		if a.Phase[r.IDs[0]] != meaning.Setup && !slices.ContainsFunc(r.IDs, func(id timeline.AllocationID) bool {
			return !rules.BeforeBackward(a, id)
		}) {
			list = append(list, r)
		}
	}
	for i, r := range list {
		if len(g.Growing) > 0 && g.Growing[r.IDs[0]] {
			continue
		}
		chain := chainFrom(list, i)
		if len(chain) < shortest {
			continue
		}
		if len(g.Growing) == 0 {
			g.Growing = pages.Make[bool](len(a.Category))
		}
		g.Chains = append(g.Chains, chain)
		for _, r := range chain {
			for _, id := range r.IDs {
				g.Growing[id] = true
			}
		}
		g.markPrompt(a, list[:i], chain)
	}
	return g
}

// chainFrom follows a growing cache from one of a list of rows.
func chainFrom(list []*rows.Row, first int) []*rows.Row {
	const look = 64 // rows: what else a pass makes in rows
	chain := []*rows.Row{list[first]}
	var step int64
	for i := first + 1; i < min(len(list), first+1+look); i++ {
		last, next := chain[len(chain)-1], list[i]
		if by := next.Size - last.Size; by <= 0 || by > last.Size || step > 0 && by != step || !follows(last, next) {
			continue
		}
		chain, step, first = append(chain, next), next.Size-last.Size, i
	}
	return chain
}

// follows reports whether one row takes the place of another, of which all are there until
// it begins.
func follows(last, next *rows.Row) bool {
	return len(next.IDs) == len(last.IDs) && next.First > last.Last && last.MinFreed > next.First
}

// markPrompt marks what the first row of a growing cache took the place of: a prompt's
// keys and values, among others that have their size.
//
//worth:off
func (g *Grown) markPrompt(a *rules.Facts, before []*rows.Row, chain []*rows.Row) {
	for _, r := range before {
		if r.Size != 2*chain[0].Size-chain[1].Size || r.MaxFreed <= chain[0].First || r.Last >= chain[0].First {
			continue
		}
		for _, id := range r.IDs {
			g.Growing[id] = g.Growing[id] || a.Freed(id) > chain[0].First
		}
	}
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
	if len(Whole.Of(a)) == 0 && len(chains) == 0 {
		return false
	}
	for i := a.Loop; i < a.Last; i++ {
		if meaning.HintOf(a.Phases[i]).Is(meaning.Forward, meaning.Data, meaning.OtherPhase) {
			a.Phases[i] = meaning.Generate
		}
	}
	a.Rephase()
	return true
}

// generatesWithin turns into generation what a program that trains does from the pass over
// a prompt until the cache that has grown since is gone.
//
//worth:off false
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
	if done > 0 {
		a.Rephase()
	}
	return done > 0
}
