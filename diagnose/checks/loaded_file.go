package checks

import (
	"slices"

	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/timeline"
)

// LoadedFile are a file's contents on the GPU beside what they were loaded for: kept as a second set of the weights, or still
// being read when the last request failed.
var LoadedFile = facts.Named("loaded file", func(p *facts.Pass) []timeline.AllocationID {
	if second := secondSetOf.Of(p); loaded(p, second) {
		return second
	}
	return beingLoaded(p)
})

// beingLoaded is what was read of a file when the last request failed, which was for more of it, where most of that has the
// size of something that isn't of a file.
func beingLoaded(p *facts.Pass) (ids []timeline.AllocationID) {
	if len(p.T.OOMs) == 0 {
		return nil
	}
	o := &p.T.OOMs[len(p.T.OOMs)-1]
	if !p.Reads(o.Stack) {
		return nil
	}
	others := map[int64]int{}
	for i := range p.T.Allocated {
		switch id := timeline.AllocationID(i); {
		case !p.T.AliveAt(id, o.Event):
		case p.Reads(p.T.Stack(id)):
			ids = append(ids, id)
		default:
			others[p.T.Requested(id)]++
		}
	}
	var twice, all int64
	for _, id := range ids {
		bytes := p.T.Requested(id)
		if all += bytes; others[bytes] > 0 {
			others[bytes]--
			twice += bytes
		}
	}
	if 2*twice <= all {
		return nil
	}
	return ids
}

// loaded reports whether a file's contents are what was allocated.
func loaded(p *facts.Pass, ids []timeline.AllocationID) bool {
	return slices.ContainsFunc(ids, func(id timeline.AllocationID) bool { return p.Reads(p.T.Stack(id)) })
}
