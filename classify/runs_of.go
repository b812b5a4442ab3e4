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
