package facts

import (
	"slices"
	"sort"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/timeline"
)

// collectedShare is from which percentage of the peak on what an evaluation
// collects is worth a word, collectedLeast from how many bytes.
const (
	collectedShare = 20
	collectedLeast = 64 << 20
	maxStretches   = 64 // evaluations that are looked at
)

// Results are what evaluations collect on the GPU.
type Results struct {
	Most   int64 // bytes, of the largest evaluation
	Passes int   // of that one
	IDs    []timeline.AllocationID
	Spells []Spell // from the end of their passes
	AtPeak bool    // the peak is that of such an evaluation
}

// Collected are the results of all their passes that evaluations keep on the GPU:
// more with each, in a list or joined anew; nil for none. Graphs and leaks are left
// to the checks for them.
var Collected = Named("collected results", func(p *Pass) *Results {
	var x Results
	peak := p.T.Peaks.Allocated.Event
	for _, steps := range p.Classes.Untrained[:min(len(p.Classes.Untrained), maxStretches)] {
		ids, spells, held := p.carried(steps)
		top := slices.Max(held)
		if top < collectedLeast || Share(top, p.Dev.AtPeak.AllocatedBytes) < collectedShare || top < 2*held[1] {
			continue
		}
		if top > x.Most {
			x.Most, x.Passes = top, len(steps)
		}
		x.Spells = append(x.Spells, spells...)
		x.IDs = append(x.IDs, ids...)
		x.AtPeak = x.AtPeak || steps[0].FirstEvent <= peak && peak <= steps[len(steps)-1].LastEvent
	}
	leaks := func(l classify.Leak) bool { return l.Defect && l.Untrained }
	if len(x.IDs) == 0 || p.Mostly(x.IDs, Unused.Of(p).Allocations()) || slices.ContainsFunc(p.Classes.Leaks(), leaks) {
		return nil
	}
	return &x
})

// FillPeak reports whether such results are what makes the peak.
func (x *Results) FillPeak() bool { return x != nil && x.AtPeak }

// carried are the allocations of some passes that are still there when the next
// one begins, their lives from then on, and the bytes of all at the beginning of
// each.
func (p *Pass) carried(steps []classify.Step) (ids []timeline.AllocationID, spells []Spell, held []int64) {
	held = make([]int64, len(steps)+1)
	first, last := steps[0].FirstEvent, steps[len(steps)-1].LastEvent
	older := p.T.Older()
	from := older + sort.Search(p.T.Len()-older, func(i int) bool { return int(p.T.Born[older+i]) >= first })
	for i := from; i < p.T.Len() && int(p.T.Born[i]) <= last; i++ {
		id := timeline.AllocationID(i)
		life, made := p.LifeOf(id), passAt(steps, int(p.T.Born[i]))
		if c := p.Classes.Category[i]; c == classify.KVCache || c == classify.Workspace || life.To <= steps[made].LastEvent {
			continue
		}
		ids = append(ids, id)
		spells = append(spells, Spell{From: steps[made].LastEvent, To: life.To, Bytes: life.Bytes})
		held[made+1] += p.T.Allocated[i]
		if gone := passAt(steps, life.To) + 1; gone < len(held) {
			held[gone] -= p.T.Allocated[i]
		}
	}
	for n := 1; n < len(held); n++ {
		held[n] += held[n-1]
	}
	return ids, spells, held[:len(steps)]
}

// passAt is the pass that an event lies in, or that is the last before it.
func passAt(steps []classify.Step, event int) int {
	return max(0, sort.Search(len(steps), func(i int) bool { return steps[i].FirstEvent > event })-1)
}
