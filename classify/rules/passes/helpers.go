// Package passes tells what forward and backward passes and the loading of batches make,
// by the phases in which an allocation is made and freed.
//
// A rule goes into a file named after its ID, and into classify's registry, where those
// of one phase are asked from the most special one to the most general.
package passes

import "github.com/vramscope/vramscope/classify/rules"

// byLifeAlone is how sure a life is that only one thing has, where no frame says so.
const byLifeAlone = rules.Strong - 3
