package classify

import (
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/internal/together"
)

// prepare finds what signals look at.
func (a *analysis) prepare() {
	a.kept = pages.Make[bool](len(a.Category))
	a.findSizes()
	together.Do(a.findGrowth, a.findSaved, a.findRetained)
	a.generates()
	a.sharing = a.communicates()
	together.Do( // each finds what only the join reads
		func() { a.findKept(); a.findLogits() },
		a.findHeads,
		a.findTwins,
		a.findResumed,
		a.findRemade,
		a.findSpare,
		a.findFlat,
		func() { a.findOlder(); a.findUnmatched(); a.findReplaced(); a.findGuessed() },
		func() { a.findCopies(); a.findRecomputed() })
	a.markScores()
	for _, steps := range a.Untrained {
		a.markJoined(steps)
	}
}

// signals are those that have something to look at in this recording.
func (a *analysis) signals() []signal {
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

// Stacked is the order of categories in pictures, what lives longest below.
var Stacked = [NumCategories]Category{Weights, OptimizerState, Gradients, KVCache, AutocastCopies, Inputs, Communication,
	Workspace,
	Activations, Logits, Temporary, Unknown}
