package replay

import "github.com/vramscope/vramscope/timeline"

// Emptied is a moment at which the program itself gave cached memory back to
// the driver, as torch.cuda.empty_cache() does.
type Emptied struct {
	First, Last int  // events
	Certain     bool // a stack says so; else what follows speaks for it
}

// EmptiedCaches finds them all, in one pass over the events. What the allocator
// gave back under pressure is not among them.
func EmptiedCaches(t *timeline.Timeline) []Emptied {
	var out []Emptied
	for _, b := range findBursts(t) {
		if b.cause == byEmptyCache {
			out = append(out, Emptied{b.first, b.last, b.certain})
		}
	}
	return out
}
