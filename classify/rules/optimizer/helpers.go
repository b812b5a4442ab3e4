// Package optimizer tells what an optimizer's step makes: its state, what it works in,
// and what it puts in the place of weights and state.
//
// A rule goes into a file named after its ID, and into classify's registry.
package optimizer

import (
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/timeline"
)

// stepsUntil is the run in which an allocation of an optimizer goes, that in which it
// was made, and that of the next step.
func stepsUntil(a *rules.Facts, id timeline.AllocationID) (gone, made, next int) {
	made = a.Run(a.Born(id))
	return a.Run(a.Freed(id)), made, int(a.NextOptimizer[made])
}
