package classify

import "github.com/vramscope/vramscope/timeline"

// outlivesPass tells whether what was born in backward is there after it.
func outlivesPass(a *analysis, id timeline.AllocationID) bool {
	r := a.run(a.born(id))
	return r >= 0 && a.freed(id) >= a.runs[r].end
}

// isCut tells whether a backward pass was cut off, by a failure or where the
// recording ends: it hasn't come to what was saved first.
func isCut(a *analysis, pass *run) bool {
	return pass.end >= a.last || a.failedBetween(pass.first-1, pass.end)
}

// weightSized is true of what is as large as a weight, and larger than what has a
// weight's size by chance.
func weightSized(a *analysis, id timeline.AllocationID) bool {
	const large = 1 << 16 // bytes
	n := a.t.Requested(id)
	return n >= large && a.weightSize[n] > 0
}
