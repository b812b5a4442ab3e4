package classify

import (
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/internal/together"
)

// prepare finds what signals look at.
func prepare(a *analysis) {
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
		func() { findSpare(a) },
		func() { findFlat(a) },
		func() { findOlder(a); findUnmatched(a); findReplaced(a); findGuessed(a) },
		func() { findCopies(a); findRecomputed(a) })
	markScores(a)
	for _, steps := range a.Untrained {
		markJoined(a, steps)
	}
}

// signals are those that have something to look at in this recording.
func signals(a *analysis) []signal {
	var out []signal
	if len(a.labels) > 0 {
		out = append(out, signal{name: ByLabel, claim: labelClaim})
	}
	if a.sharing != nil {
		out = append(out, signal{name: ByAnnotation, claim: annotationClaim})
	}
	for _, s := range []signal{
		{ByNativeStack, frames.Workspace | frames.Bucket | frames.LossGrad | frames.Cast, 0, nativeClaim},
		{ByFreeStack, 0, frames.Release | frames.Engine, freeClaim},
		{ByPythonStack, frames.Bucket | frames.Flat | frames.Keep | frames.Comm | frames.Cache | frames.OwnCache | frames.AnyCache | frames.Restore | frames.State | frames.Weight | frames.Input, 0, pythonClaim},
	} {
		if a.all&(s.birth|s.death) != 0 {
			out = append(out, s)
		}
	}
	return append(out, signal{name: ByLife, claim: lifeClaim}, signal{name: BySize, claim: sizeClaim})
}
