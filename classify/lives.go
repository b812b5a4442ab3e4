package classify

import (
	"slices"

	"github.com/vramscope/vramscope/timeline"
)

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

// row is the largest size that two are multiples of.
func row(n, size int64) int64 {
	for size > 0 {
		n, size = size, n%size
	}
	return n
}

// pass is one forward with the backward that follows it, if any.
type pass struct {
	first, end int
	backward   *run
}

// passes are the forward runs of training, cut where passes follow each other
// that no backward pass does, or the iterations of a loop that only runs forward.
func passes(a *analysis) []pass {
	var out []pass
	if a.trains {
		var cuts []int
		for _, steps := range a.Untrained {
			for i := range steps {
				cuts = append(cuts, steps[i].FirstEvent)
			}
			cuts = append(cuts, steps[len(steps)-1].LastEvent+1)
		}
		for r := range a.runs {
			if a.runs[r].phase != Forward {
				continue
			}
			for first := a.runs[r].first; first < a.runs[r].end; {
				p := pass{first, a.runs[r].end, a.backwardAfter(r)}
				if i, _ := slices.BinarySearch(cuts, first+1); i < len(cuts) {
					p.end = min(p.end, cuts[i])
				}
				if a.UntrainedAt(first) != nil {
					p.backward = nil
				}
				out = append(out, p)
				first = p.end
			}
		}
		return out
	}
	first := a.loop
	for i := range a.Steps { // their peaks are being worked out
		next := a.Steps[i].FirstEvent
		if next > first {
			out = append(out, pass{first, next, nil})
		}
		first = next
	}
	return append(out, pass{first, a.last, nil})
}
