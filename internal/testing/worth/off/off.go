// Package off switches heuristics off while their worth is measured. Nothing of the
// program imports it: the command above writes the calls into copies of the sources.
package off

import "sync/atomic"

// Most is how many heuristics there can be.
const Most = 512

// IDs name the heuristics by their numbers; a copy that the command makes fills them in.
var IDs []string

var off, called [Most]atomic.Bool

// At is called where heuristic n begins, and reports whether it is off.
func At(n int) bool {
	called[n].Store(true)
	return off[n].Load()
}

// Set switches off these heuristics and no others, and forgets which were called.
func Set(numbers ...int) {
	for n := range IDs {
		off[n].Store(false)
		called[n].Store(false)
	}
	for _, n := range numbers {
		off[n].Store(true)
	}
}

// Called reports whether a heuristic was asked since the last Set.
func Called(n int) bool { return called[n].Load() }
