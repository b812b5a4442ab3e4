package replay

import "github.com/vramscope/vramscope/timeline"

// Emptied is a moment at which the program itself gave cached memory back to
// the driver, as torch.cuda.empty_cache() does.
type Emptied struct {
	First, Last int   // events
	Freed       int64 // bytes
	Certain     bool  // a stack says so; else what follows speaks for it
}

// EmptiedCaches finds them all, in one pass over the events. What the allocator
// gave back under pressure is not among them.
func EmptiedCaches(t *timeline.Timeline) []Emptied {
	var out []Emptied
	for _, b := range findBursts(t) {
		if b.cause == byEmptyCache {
			out = append(out, Emptied{b.first, b.last, b.freed, b.certain})
		}
	}
	return out
}

// Flush is a request that found no room until all that lay in the cache went back
// to the driver: PyTorch counts it among num_alloc_retries.
type Flush struct {
	Asked    int   // event in which the driver is asked again, and gives
	Freed    int64 // bytes that went back before
	Wanted   int64 // bytes asked of the driver
	Reserved int64 // bytes held before anything went back
	Certain  bool  // a stack says so; else that what was wanted had not fitted
}

// Flushes finds them all, in one pass over the events. Requests that failed in the
// end are not among them.
func Flushes(t *timeline.Timeline) []Flush {
	var out []Flush
	for _, b := range findBursts(t) {
		if b.cause == byPressure && b.want != 0 && b.want != unlimited {
			out = append(out, Flush{b.asked, b.freed, b.want, b.reserved, b.certain})
		}
	}
	return out
}
