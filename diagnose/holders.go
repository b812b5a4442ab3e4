package diagnose

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

// maxHolders is how many variables a report names.
const maxHolders = 50

// holders gives the variables that hold a device's allocations, none where nobody recorded them.
func (j *job) holders(source int, t *timeline.Timeline) []classify.Holder {
	s := &j.sources[source]
	if s.Holders == nil {
		return nil
	}
	found, err := s.Holders(t)
	if err != nil {
		s.labelsFailed = err.Error()
	}
	return found
}

// holdersAt describes variables by what counts of each of their allocations.
func holdersAt(all []classify.Holder, bytes func(timeline.AllocationID) int64) []report.Holder {
	out := []report.Holder{}
	for _, h := range all {
		x := report.Holder{Path: h.Path, Cycle: h.Cycle}
		if h.Bound > 0 {
			x.Bound, x.Elements = &h.Bound, &h.Elements
		}
		var shown int64
		for _, id := range h.Tensors {
			if n := bytes(id); n > 0 {
				x.Tensors++
				x.Bytes += n
				part, ok := h.Shown[id]
				if !ok {
					part = n
				}
				shown += min(part, n)
			}
		}
		for _, id := range h.Graph {
			x.GraphBytes += bytes(id)
		}
		if len(h.Shown) > 0 && x.Bytes > 0 {
			x.ShownBytes = &shown
		}
		if x.Bytes+x.GraphBytes > 0 {
			out = append(out, x)
		}
	}
	slices.SortStableFunc(out, func(a, b report.Holder) int {
		return cmp.Or(cmp.Compare(b.Bytes+b.GraphBytes, a.Bytes+a.GraphBytes), cmp.Compare(a.Path, b.Path))
	})
	return out[:min(len(out), maxHolders)]
}

// bytesAtEnd is what an allocation takes at the dump.
func (e *examination) bytesAtEnd(id timeline.AllocationID) int64 {
	if e.T.FreeRequested[id] != timeline.Never {
		return 0
	}
	return e.T.Allocated[id]
}

// leastOfLeak is the share of a leak, in percent, from which a variable counts as its holder.
const leastOfLeak = 10

// leakHolders are the variables that hold most of a leak: those that grew from look to look, where any did.
func (e *examination) leakHolders(l *classify.Leak) []report.Holder {
	kept := map[timeline.AllocationID]bool{}
	var all int64
	for _, id := range l.Allocations {
		kept[id] = true
		all += e.T.Allocated[id]
	}
	of := func(holders []classify.Holder) []report.Holder {
		found := holdersAt(holders, func(id timeline.AllocationID) int64 {
			if kept[id] {
				return e.T.Allocated[id]
			}
			return 0
		})
		return slices.DeleteFunc(found, func(h report.Holder) bool { return (h.Bytes+h.GraphBytes)*100 < all*leastOfLeak })
	}
	growing := slices.DeleteFunc(slices.Clone(e.Variables), func(h classify.Holder) bool { return !h.Grew })
	if found := of(growing); len(found) > 0 {
		return found
	}
	return of(e.Variables)
}

// fills reports whether what a leak keeps lies in a container that has a bound, for all of which the device has room.
func fills(x *report.Leak, capacity int64) bool {
	if x.Kind != classify.GrowingList || len(x.Holders) == 0 || x.Holders[0].Bound == nil || *x.Holders[0].Elements == 0 {
		return false
	}
	h := &x.Holders[0]
	known := int64(0)
	for i := range x.Holders {
		known += x.Holders[i].Bytes + x.Holders[i].GraphBytes
	}
	if *h.Elements == *h.Bound {
		known = x.TotalBytes // it is full: what grows on must be elsewhere
	}
	each := float64(x.TotalBytes) / float64(*h.Elements)
	return h.Bytes*2 > known && (capacity == 0 || each*float64(*h.Bound) < float64(capacity))
}
