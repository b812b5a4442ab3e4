package profiles

import (
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// bytesAt is what every category holds and the four curves after an event;
// the categories sum to Allocated.
type bytesAt struct {
	timeline.Levels
	categories [classify.NumCategories]int64
}

// death is an allocation's end that its own event doesn't show.
type death struct {
	event uint32
	id    timeline.AllocationID
}

// silentDeaths are allocations whose address was given out again without a
// free, by event.
func silentDeaths(t *timeline.Timeline) []death {
	var out []death
	for i, f := range t.FreeRequested {
		if f < timeline.Before && t.Of[f] != timeline.AllocationID(i) {
			out = append(out, death{f, timeline.AllocationID(i)})
		}
	}
	slices.SortFunc(out, func(a, b death) int { return int(int64(a.event) - int64(b.event)) })
	return out
}

// atStart is what is held before the first event.
func (d Device) atStart() bytesAt {
	t := d.Timeline
	b := bytesAt{Levels: t.Start}
	for i := range t.Older() {
		if t.FreeRequested[i] != timeline.Before {
			b.categories[d.Classes.Category[i]] += t.Allocated[i]
		}
	}
	return b
}

// walk calls f with what is held after every event.
func (d Device) walk(f func(event int, now *bytesAt)) {
	t, category := d.Timeline, d.Classes.Category
	now := d.atStart()
	silent := silentDeaths(t)
	actions := t.Device.Events.Action
	t.Walk(func(i int, l timeline.Levels) {
		now.Levels = l
		for len(silent) > 0 && silent[0].event == uint32(i) {
			now.categories[category[silent[0].id]] -= t.Allocated[silent[0].id]
			silent = silent[1:]
		}
		if id := t.Of[i]; id != timeline.NoAllocation {
			switch {
			case actions[i] == snapshot.Alloc:
				now.categories[category[id]] += t.Allocated[id]
			case t.FreeRequested[id] == uint32(i):
				now.categories[category[id]] -= t.Allocated[id]
			}
		}
		f(i, &now)
	})
}

// order is that of categories in pictures, what lives longest first.
var order = [classify.NumCategories]classify.Category{classify.Weights, classify.OptimizerState, classify.Gradients, classify.KVCache,
	classify.AutocastCopies, classify.Inputs, classify.Communication, classify.Workspace, classify.Activations, classify.Logits,
	classify.Temporary, classify.Unknown}
