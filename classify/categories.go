package classify

// findCategories lets every signal look at every allocation.
func (a *analysis) findCategories() {
	a.findRuns()
	a.findSizes()
	a.findLogits()
	a.join([]signal{labelSignal{}, nativeSignal{}, freeSignal{}, pythonSignal{}, lifeSignal{}, sizeSignal{}})
	a.joinSites()
}
