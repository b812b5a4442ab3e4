// Package weights tells what setup makes and what has the sizes of weights: copies of
// them, casts, buckets, data sets.
//
// A rule goes into a file named after its ID, and into classify's registry.
package weights

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

// outlivesSetup is true of what setup leaves.
func outlivesSetup(a *rules.Facts, id timeline.AllocationID) bool {
	f := a.Freed(id)
	return f >= a.Last || a.PhaseAt(f) != meaning.Setup
}

// madeByProgram is true of what the program's own code makes, outside of all modules.
func madeByProgram(a *rules.Facts, id timeline.AllocationID) bool {
	m := a.Birth(id).Marks
	return m&frames.UserInner != 0 && m&(frames.Weight|frames.InModule) == 0
}
