package classify

import "github.com/vramscope/vramscope/snapshot"

// findCategories lets every signal look at every allocation.
func (a *analysis) findCategories() {
	a.findRuns()
	for _, r := range a.runs {
		a.trains = a.trains || r.phase == Backward
	}
	for i, action := range a.events.Action {
		if action == snapshot.OOM {
			a.ooms = append(a.ooms, i)
		}
	}
	a.findGrowth()
	a.findSaved()
	a.generates()
	a.findSizes()
	a.sharing = a.communicates()
	a.findKept()
	a.findLogits()
	a.markScores()
	a.findOlder()
	a.findCopies()
	a.join([]signal{labelSignal{}, annotationSignal{}, nativeSignal{}, freeSignal{}, pythonSignal{}, lifeSignal{}, sizeSignal{}})
	a.joinSites()
}
