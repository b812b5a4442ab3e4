// Package kvcache tells key-value caches by their rows of equal blocks: such as grow by
// concatenation, such as are made whole, and such as training passes keep.
//
// A rule for another kind of cache finds its rows in a file of its own, called by
// Generates where it makes a loop one that generates.
package kvcache

import (
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/classify/rules/rows"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/timeline"
)

var GrowingCache = &rules.Rule{
	ID: "kv-cache-growing",
	Doc: `One of equal numbers of blocks of sizes that rise by the same amount, each freed only after the next
size is there: a key-value cache that grows by concatenation.`,
	Signal: meaning.BySize,
	Born:   rules.BornIn(meaning.Forward, meaning.Generate),
	Needs:  []rules.Need{rules.Rows, rules.Sizes, rules.Lives},
	Begin: func(a *rules.Facts) func(timeline.AllocationID) rules.Claim {
		if len(a.Chains) == 0 {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			if !a.Growing[id] {
				return rules.Claim{}
			}
			return rules.As(meaning.KVCache, rules.Strong)
		}
	},
}

// FindGrowth finds caches that a program lets grow by concatenation: chains of rows of as
// many blocks each, whose sizes rise by the same amount.
func FindGrowth(a *rules.Facts) {
	a.Rows = rows.Find(a.Program, a.WeightSize)
	a.Chains, a.Growing = nil, nil
	const shortest = 4
	var list []*rows.Row // what a backward pass may see is no cache
	for _, r := range a.Rows {
		if a.Phase[r.IDs[0]] != meaning.Setup && !slices.ContainsFunc(r.IDs, func(id timeline.AllocationID) bool {
			return !rules.BeforeBackward(a, id)
		}) {
			list = append(list, r)
		}
	}
	for i, r := range list {
		if len(a.Growing) > 0 && a.Growing[r.IDs[0]] {
			continue
		}
		chain := chainFrom(list, i)
		if len(chain) < shortest {
			continue
		}
		if len(a.Growing) == 0 {
			a.Growing = pages.Make[bool](len(a.Category))
		}
		a.Chains = append(a.Chains, chain)
		for _, r := range chain {
			for _, id := range r.IDs {
				a.Growing[id] = true
			}
		}
		markPrompt(a, list[:i], chain)
	}
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
func markPrompt(a *rules.Facts, before []*rows.Row, chain []*rows.Row) {
	for _, r := range before {
		if r.Size != 2*chain[0].Size-chain[1].Size || r.MaxFreed <= chain[0].First || r.Last >= chain[0].First {
			continue
		}
		for _, id := range r.IDs {
			a.Growing[id] = a.Growing[id] || a.Freed(id) > chain[0].First
		}
	}
}

// Generates turns loops that only run forward and keep a cache into generation, and what a
// program that trains does while one grows. Models fill a cache in training, too: a pass that
// keeps what backward would need, and no cache grows, is the first of one that failed. It
// reports whether a part became one.
func Generates(a *rules.Facts) bool {
	if a.Trains {
		return generatesWithin(a)
	}
	if a.Saves && len(a.Chains) == 0 || !findWhole(a) && len(a.Chains) == 0 && !hasClass(a) {
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
func generatesWithin(a *rules.Facts) bool {
	done := 0
	for _, chain := range a.Chains {
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
