package facts

import (
	"fmt"
	"iter"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// Peak sums up what is alive at the allocated peak.
var Peak = Named("peak by category", func(p *Pass) *Sums {
	var x Sums
	event := p.T.Peaks.Allocated.Event
	for i, bytes := range p.T.Allocated {
		if p.T.AliveAt(timeline.AllocationID(i), event) {
			x[p.Classes.Category[i]][p.Classes.Detail[i]].Add(bytes)
		}
	}
	return &x
})

// Sums are those of some memory by category and detail.
type Sums [classify.NumCategories][classify.NumDetails]Tally

// Held is what a category takes, all its details together.
func (x *Sums) Held(c classify.Category) (bytes int64) {
	for _, y := range x[c] {
		bytes += y.Bytes
	}
	return bytes
}

// Each are the allocations of a category, in order.
func (p *Pass) Each(category classify.Category) iter.Seq[timeline.AllocationID] {
	return func(yield func(timeline.AllocationID) bool) {
		for i, c := range p.Classes.Category {
			if c == category && !yield(timeline.AllocationID(i)) {
				return
			}
		}
	}
}

// AtPeak is what of a category some allocations are at the peak.
func (p *Pass) AtPeak(ids []timeline.AllocationID, category classify.Category) (bytes int64) {
	event := p.T.Peaks.Allocated.Event
	for _, id := range ids {
		if p.Classes.Category[id] == category && p.T.AliveAt(id, event) {
			bytes += p.T.Allocated[id]
		}
	}
	return bytes
}

// LeakedAtPeak is what of a category other findings explain at the peak.
func (p *Pass) LeakedAtPeak(category classify.Category) int64 {
	return p.AtPeak(Unused.Of(p).Allocations(), category) + p.AtPeak(Leaked.Of(p), category)
}

// Leaked is what defects keep.
var Leaked = Named("leaked allocations", func(p *Pass) (ids []timeline.AllocationID) {
	for _, l := range p.Classes.Leaks() {
		if l.Told() {
			ids = append(ids, l.Allocations...)
		}
	}
	return ids
})

// LeakedSet is the same, to look allocations up.
func (p *Pass) LeakedSet() map[timeline.AllocationID]bool {
	leaked := map[timeline.AllocationID]bool{}
	if p.Dev == nil { // nothing is classified, as pinned memory
		return leaked
	}
	for _, id := range Leaked.Of(p) {
		leaked[id] = true
	}
	return leaked
}

// Mostly reports whether at least half of some memory is that of others.
func (p *Pass) Mostly(ids, others []timeline.AllocationID) bool {
	if len(others) == 0 {
		return false
	}
	known := make(map[timeline.AllocationID]bool, len(others))
	for _, id := range others {
		known[id] = true
	}
	var both, all int64
	for _, id := range ids {
		all += p.T.Allocated[id]
		if known[id] {
			both += p.T.Allocated[id]
		}
	}
	return 2*both >= all
}

// Doubtful counts the bytes of a category after an event, and those of them that may
// be of another.
func (p *Pass) Doubtful(category classify.Category, event int) (doubtful, all int64) {
	for id := range p.Each(category) {
		if !p.T.AliveAt(id, event) {
			continue
		}
		all += p.T.Allocated[id]
		if p.Classes.Confidence[id] < classify.Plausible {
			doubtful += p.T.Allocated[id]
		}
	}
	return doubtful, all
}

// Share is a part of a whole in percent.
func Share(part, whole int64) int64 {
	if whole <= 0 {
		return 0
	}
	return int64(100 * float64(part) / float64(whole))
}

// ByStack sums up allocations by their stack.
func (p *Pass) ByStack(ids []timeline.AllocationID) map[snapshot.StackID]int64 {
	sums := map[snapshot.StackID]int64{}
	for _, id := range ids {
		sums[p.T.Stack(id)] += p.T.Allocated[id]
	}
	return sums
}

// NameOf is the name of a weight, gradient or state, "" when it has none.
func (p *Pass) NameOf(id timeline.AllocationID) string {
	if len(p.Classes.Name) == 0 {
		return ""
	}
	return p.Classes.Names[p.Classes.Name[id]]
}

// MostOf names what took most of the peak, if anything did.
func MostOf(d *report.Device) []string {
	name, bytes := Largest(&d.AtPeak)
	if bytes == 0 {
		return nil
	}
	what, why := strings.ReplaceAll(name, "_", " "), ""
	if d.AtPeak.GuessedWeights && name == classify.Unknown.String() {
		what, why = "what was made before anything was freed",
			": without stacks weights can't be told from what the first pass makes, or from data"
	}
	return []string{fmt.Sprintf("most of it: %s, %s (%s)%s", what, units.Bytes(bytes),
		units.Percent(bytes, d.AtPeak.AllocatedBytes), why)}
}
