package classify

import (
	"github.com/vramscope/vramscope/internal/together"
	"github.com/vramscope/vramscope/snapshot"
)

// findCategories lets every signal look at every allocation.
func (a *analysis) findCategories() {
	for i, action := range a.events.Action {
		if action == snapshot.OOM {
			a.ooms = append(a.ooms, i)
		}
	}
	a.kept = make([]bool, len(a.Category))
	a.findSizes()
	together.Do(a.findGrowth, a.findSaved, a.findRetained)
	a.generates()
	a.sharing = a.communicates()
	together.Do( // each finds what only the join reads
		func() { a.findKept(); a.findLogits(); a.markScores() },
		func() { a.findOlder(); a.findUnmatched() },
		func() { a.findCopies(); a.findRecomputed() },
		a.peaks)
	a.join(a.signals())
	a.joinSites()
	a.findDetails()
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
	if len(a.stacks) > 1 {
		out = append(out,
			signal{name: ByNativeStack, birth: workspace | bucket | lossGrad | cast, claim: nativeClaim},
			signal{name: ByFreeStack, death: release | engine, claim: freeClaim},
			signal{name: ByPythonStack, birth: bucket | keep | comm | cache | restore | state | weight | input, claim: pythonClaim})
	}
	return append(out, signal{name: ByLife, claim: lifeClaim}, signal{name: BySize, claim: sizeClaim})
}
