package classify

import (
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/internal/together"
)

// prepare works out what rules look at.
func prepare(p *Program) *analysis {
	a := &analysis{Program: p}
	a.kept = pages.Make[bool](len(a.Category))
	findSizes(a)
	together.Do(func() { findGrowth(a) }, func() { findSaved(a) }, func() { findRetained(a) })
	generates(a)
	a.sharing = a.communicates()
	together.Do( // each finds what only the join reads
		func() { findKept(a); findLogits(a) },
		func() { findHeads(a) },
		func() { findTwins(a) },
		func() { findResumed(a) },
		func() { findRemade(a) },
		func() { findOlder(a); findUnmatched(a); findReplaced(a) },
		func() { findCopies(a); findRecomputed(a) })
	markScores(a)
	for _, steps := range a.Untrained {
		markJoined(a, steps)
	}
	return a
}
