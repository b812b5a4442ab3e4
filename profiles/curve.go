package profiles

import (
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
	unseen := t.Unseen
	actions := t.Device.Events.Action
	t.Walk(func(i int, l timeline.Levels) {
		now.Levels = l
		for len(unseen) > 0 && unseen[0].Event == uint32(i) {
			now.categories[category[unseen[0].ID]] -= t.Allocated[unseen[0].ID]
			unseen = unseen[1:]
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
